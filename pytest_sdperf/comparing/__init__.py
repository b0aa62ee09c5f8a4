"""Obtained against reference: arrays in, agreements and sentences out. Nothing here runs or reads anything."""
