"""Volumes of pods that hold a directory, files or a path of the host."""
