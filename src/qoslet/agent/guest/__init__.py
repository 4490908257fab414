"""The agent beside a kubelet: it watches the node, and writes only what a policy names."""
