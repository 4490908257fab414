"""Serves a web page that only reads: access, answers and streams."""
