"""Probes of containers: what is asked for, and how their results count."""
