"""Documents, flags and a probe to `Node`, checked as a kubelet checks."""
