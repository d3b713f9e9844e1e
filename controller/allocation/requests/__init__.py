"""What claims ask for, worked out once for all claims that ask for the same."""
