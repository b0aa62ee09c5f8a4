"""How far verdicts on speed can be trusted on a machine: one build against itself, as it is and made slower."""
