"""Lines, columns, and the report of a case."""
