"""Which devices exist and which are in use: pools, their attribute columns and bitsets, kept up to date by events."""
