"""Child processes, seen from the parent: started, followed, ended."""
