"""Which cases a test gets, and what they are called."""
