"""The command line, ini files and markers, read into frozen settings."""
