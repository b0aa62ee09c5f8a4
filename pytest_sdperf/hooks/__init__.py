"""What pytest calls: each module implements the hooks of one kind of run, or of one other plug-in."""
