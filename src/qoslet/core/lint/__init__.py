"""Traps in manifests and kubelet configurations: rules with an id, a reason and a fix."""
