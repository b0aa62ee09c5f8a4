"""Text to image, with any engine per component."""
