"""Joins the agent beside a kubelet with this machine."""
