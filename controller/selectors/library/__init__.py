"""The functions that selectors may call, as Kubernetes implements them: one module for each type of argument."""
