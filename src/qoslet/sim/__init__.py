"""A kernel made of values, behind the same ports as the real one. It needs no machine."""
