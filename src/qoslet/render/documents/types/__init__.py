"""The documents that ``-o json`` prints, as types of Python."""
