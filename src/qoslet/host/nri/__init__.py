"""The Node Resource Interface of a container runtime, as its plugin speaks it.

``frames`` is the multiplexed connection and ttrpc as bytes, ``connection`` calls and answers over a
socket, ``session`` one registration, ``messages`` what is sent as values, ``plugin_journal`` what was set.
"""
