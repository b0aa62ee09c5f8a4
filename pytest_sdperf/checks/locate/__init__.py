"""A comparison failed: where did it go wrong? Runs what is needed in workers, and only then."""
