"""What is read and written: named arrays, and a disk that may be full or read-only."""
