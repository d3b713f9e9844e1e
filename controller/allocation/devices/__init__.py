"""Which devices exist and which are in use: pools, their attribute columns and bitsets, kept up to date by events.

device_index          all devices and the nodes that reach them
domains               the devices of a pool by domain of the topology
| node_availability   how many devices each node has available
| selector_index      which devices selectors select
columns               what the devices of a pool have in one place: an attribute, the capacities
| evaluation          evaluates a selector once for devices that are alike
| overuse             whether more of a device is in use than there is
pools                 the newest generation of each pool, checked
blueprint             what pools of equal hardware have in common
| usage               what is in use, by device and counter
layout                which counters devices draw on, and which devices the free ones allow
"""
