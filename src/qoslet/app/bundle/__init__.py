"""A node in one file: made of this machine, and read instead of one."""
