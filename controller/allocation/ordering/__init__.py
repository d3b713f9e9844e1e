"""Which of the sufficient devices come first (``PlacementConfig``). Without a preference, this is not used."""
