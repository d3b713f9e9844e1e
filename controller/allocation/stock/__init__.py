"""What there is and what is in use: pools, their columns and masks, kept up to date by events."""
