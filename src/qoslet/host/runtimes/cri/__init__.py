"""Containers by a program that speaks the Container Runtime Interface: containerd, CRI-O.

``runtime`` is the port, ``podrun`` one pod's life, ``calls`` the wire, ``checked`` what is believed
of an answer, ``configs`` what is asked for, ``facts`` what a runtime tells of itself.
"""
