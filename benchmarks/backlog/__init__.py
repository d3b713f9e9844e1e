"""Thousands of pods that wait for devices: what they cost, and whether other pods have to wait for them."""
