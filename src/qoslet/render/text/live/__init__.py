"""Text of what changes while a reader watches: a run, pods and cgroups over time."""
