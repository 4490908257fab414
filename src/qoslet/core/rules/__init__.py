"""The arithmetic, one module for each resource: a function per rule, its source beside it.

A rule takes and returns numbers; which rules apply is decided where the plan is put together.
"""
