"""The rewrites of the ladder, one fusion per file. Loaded only by the tasks that build."""
