"""What claims ask for, compiled once for all claims that ask for the same."""
