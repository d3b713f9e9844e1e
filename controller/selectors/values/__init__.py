"""The values that expressions compute with, and how they are compared, written and used as keys."""
