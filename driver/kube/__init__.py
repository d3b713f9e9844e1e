"""The Kubernetes API as this project uses it: a port (``api``), its one real client, and the reflector."""
