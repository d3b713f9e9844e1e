"""Strategies by which containers share a card, one module each: what exists on the node, and what a container gets.

hami            HAMi-core: a library in the container that enforces shares of memory and cores
| mps           CUDA MPS: a daemon for each shared card
| timeslicing   the driver lets processes take turns
"""
