"""What hardware vendors ship, in small: shared libraries, written in C with the vendors' ABI, and a device plugin."""
