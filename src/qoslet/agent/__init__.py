"""The loop. Knows ports, never a host: it runs the same on a machine and on a simulated kernel."""
