"""The values that CEL computes with."""
