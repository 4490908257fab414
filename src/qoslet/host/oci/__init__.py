"""Containers through runc or crun, without a daemon."""
