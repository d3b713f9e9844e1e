"""Shared by both programs: the model of devices and claims, the Kubernetes API, settings, logs and metrics."""
