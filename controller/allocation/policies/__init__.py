"""Which of the devices and nodes that would do are preferred (``PlacementConfig``)."""
