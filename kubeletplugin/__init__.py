"""Runs on each node: publishes its cards as ResourceSlices and prepares allocated claims for containers."""
