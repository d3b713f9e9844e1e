"""The whole system without a cluster: an API in memory, a clock of its own, faults on demand, and stand-ins."""
