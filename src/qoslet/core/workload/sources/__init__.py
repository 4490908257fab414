"""What pods take from ConfigMaps, Secrets, the downward API and the host."""
