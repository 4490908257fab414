"""Requests and limits to the settings of every level."""
