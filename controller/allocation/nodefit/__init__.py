"""One node and one compiled request: which devices are eligible, whether and how often they fit, and why not."""
