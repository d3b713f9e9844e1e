"""Strategies by which containers share a card, one module each: what exists on the node, and what a container gets."""
