"""What both programs share: the model of devices and claims, the Kubernetes API, settings, observation."""
