"""The arithmetic of verdicts: bounds, interim analyses, and pairs."""
