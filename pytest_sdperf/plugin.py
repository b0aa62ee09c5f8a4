"""The door: hooks of a few lines, and the composition of everything behind them."""
