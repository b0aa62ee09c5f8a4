"""Faults that can be planted into a run, so that anybody can see them found.

A fault is planted at the place of the data flow where it would come from, and nothing behind that place knows of it:
it is found by what finds a real one, or not at all. What judges is left alone: the reference, the limits and the rules.

Only `--sdperf-plant` and `sdperf faults` import this room, and no other module knows of it: faults enter through
`core.alteration`, as anybody's alterations do.
"""
