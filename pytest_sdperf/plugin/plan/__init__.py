"""What a run has to make and what of it was ever timed, before it runs, and what comes first where time is short."""
