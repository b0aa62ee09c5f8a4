"""Probes: one file per vendor, registered like anyone's. None of them imports torch: asking torch for a device would
create a CUDA context in the suite's process, and its answers hide what the vendor's library cannot tell.
"""
