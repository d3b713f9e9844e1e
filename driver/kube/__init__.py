"""The Kubernetes API: a port (``api``), its client for a kube-apiserver, and the reflector."""
