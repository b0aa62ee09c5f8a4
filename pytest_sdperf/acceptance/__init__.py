"""How a result becomes a baseline: candidates, refusals, acceptance."""
