"""Decides: which devices a claim gets, and on which node its pod runs."""
