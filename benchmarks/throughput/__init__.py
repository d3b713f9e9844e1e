"""How many pods a second get from creation to bound on a real API server with a thousand nodes and no kubelets."""
