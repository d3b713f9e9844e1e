"""The search for devices where the first fit does not do: what cannot be is seen by counting, then tried in order."""
