"""The plugin of a container runtime: it has values set in containers as they are created."""
