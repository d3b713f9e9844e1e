"""Strategies of sharing a card, one module each: their state on the node, and the edits of containers.

hami            HAMi-core: a library in the container that enforces shares of memory and cores
| mps           CUDA MPS: a daemon for each shared card
| timeslicing   the driver lets processes take turns
region          the file in which HAMi-core counts what containers use
"""
