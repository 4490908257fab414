"""The runtimes that run containers, chosen and prepared."""
