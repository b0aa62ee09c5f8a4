"""One loaded case, called again and again: equal calls, images of a batch, resolutions in turns."""
