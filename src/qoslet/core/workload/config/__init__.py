"""What pods take from ConfigMaps and Secrets: references, variables."""
