"""What is decided: values in, values out.

No files, clock, environment, processes or logging, and nothing imported but pure parts of the
standard library and msgspec. What cannot run without a machine belongs in ``host``.
"""
