"""What is off in a cgroup tree, subject by subject."""
