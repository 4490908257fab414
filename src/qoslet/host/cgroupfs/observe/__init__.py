"""Reads cgroups of this machine: to compare with a plan, for an audit, a bundle, statistics."""
