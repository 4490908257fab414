"""The cgroup file systems of this machine: performed, observed, reclaimed."""
