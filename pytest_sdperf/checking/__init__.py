"""Does a case compute the right thing? Each module asks it in one way; `comparing` has the arithmetic."""
