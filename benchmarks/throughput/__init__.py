"""Pods per second from creation to binding, on a real API server with a thousand nodes and without kubelets."""
