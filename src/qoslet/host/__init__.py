"""Every effect on this machine: files, processes, the kernel's own tree.

Nothing is decided here; what is read becomes a value of ``core``, and what is done is a step
that ``core`` put in order.
"""
