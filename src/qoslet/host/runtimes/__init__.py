"""Modules that programs of earlier versions name, where they look for them."""
