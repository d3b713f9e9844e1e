"""How long a kubelet waits for a claim to be prepared, and what the plugin needs on every node."""
