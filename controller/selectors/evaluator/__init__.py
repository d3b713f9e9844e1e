"""Syntax to Python closures that evaluate it."""
