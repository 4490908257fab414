"""Decides about stalls at memory.high and about a node short of memory."""
