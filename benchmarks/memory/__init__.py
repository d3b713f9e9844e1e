"""The controller's memory and the time of its start, by the size of the cluster."""
