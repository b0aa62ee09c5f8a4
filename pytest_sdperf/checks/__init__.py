"""What is asked of a build: one folder for each suite, and what they share."""
