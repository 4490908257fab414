"""Users, capabilities and system calls that a container may use."""
