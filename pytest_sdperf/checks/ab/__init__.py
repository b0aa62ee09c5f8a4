"""Two sides measured in turns, judged by each other."""
