"""Engines, one file each; siblings share only modules whose name starts with an underscore."""
