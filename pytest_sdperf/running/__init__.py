"""One run: what was asked becomes a session of cases, and ends in files, lines and an exit status."""
