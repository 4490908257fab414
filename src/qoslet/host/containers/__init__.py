"""What containers need on this machine: a process, volumes, logs, and records of their pods."""
