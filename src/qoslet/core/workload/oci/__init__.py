"""A pod for an OCI runtime: images, containers as the runtime reads them, bundles."""
