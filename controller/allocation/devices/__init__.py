"""Indexes of devices and their use: pools, columns of attributes, and bitsets, kept up to date by events.

places                the places of allocated devices among those of a node
device_index          all devices and the nodes that reach them
domains               the devices of a pool by domain of the topology
| node_availability   the number of available devices of each node
| selector_index      the devices that selectors select
columns               one attribute, or the capacities, of all devices of a pool
| evaluation          evaluates a selector once for devices that are alike
| overuse             devices of which too much is in use
| card_parts          how much of a card an allocated device takes
pools                 the newest generation of each pool, checked
blueprint             the common part of pools with equal hardware
| usage               the use of each device
layout                the counters that devices draw on, and the devices that free counters allow
"""
