"""Indexes of devices and their use: pools, columns of attributes, and bitsets, kept up to date by events.

device_index          all devices and the nodes that reach them
node_availability     the number of available devices of each node
| selector_index      the devices that selectors select
columns               one attribute, or the capacities, of all devices of a pool
pools                 the newest generation of each pool, checked
layout                the counters of pools with equal hardware, and the devices that free counters allow
| usage               the use of each device
"""
