"""Joins real or simulated parts to the loop: the only room that knows host and agent."""
