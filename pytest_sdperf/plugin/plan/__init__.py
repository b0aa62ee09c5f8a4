"""What a run will cost, before it runs, and what of it comes first where time is short."""
