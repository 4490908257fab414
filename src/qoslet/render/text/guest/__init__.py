"""The agent beside a kubelet, as text."""
