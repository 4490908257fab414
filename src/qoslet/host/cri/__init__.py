"""Containers by a program that speaks the Container Runtime Interface: containerd, CRI-O.

``runtime`` is the port, ``pod_worker`` one pod's life, ``calls`` the wire, ``validation`` what is believed
of an answer, ``requests`` what is asked for, ``runtime_info`` what a runtime tells of itself.
"""
