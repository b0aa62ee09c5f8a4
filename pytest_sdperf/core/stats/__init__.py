"""The arithmetic of verdicts: bounds, looks, and pairs."""
