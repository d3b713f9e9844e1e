"""Shared libraries of hardware vendors, in small: written in C for the tests, with the vendors' ABI."""
