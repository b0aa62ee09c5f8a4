"""Decoded images: what is wrong with one at a glance, how alike two are, and how they are shown to a person."""
