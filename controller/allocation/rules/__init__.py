"""The rules of resource.k8s.io/v1 for one device: consumed capacity, taints, constraints. Pure, without state."""
