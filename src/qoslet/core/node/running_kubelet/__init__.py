"""A kubelet that runs: its command line and its files to the configuration in force."""
