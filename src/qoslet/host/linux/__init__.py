"""Thin wrappers of Linux system calls and small kernel files."""
