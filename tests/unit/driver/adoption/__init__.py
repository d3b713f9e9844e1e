"""Requests of other systems as claims."""
