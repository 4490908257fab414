"""Recordings of a node: their format, and what a moment of one looked like."""
