"""Scenes of two plain shapes: their captions, and what an image shows of them."""
