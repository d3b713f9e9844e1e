"""One node and one compiled request: which devices are eligible, whether and how often they fit, and why not.

node_device_counts     what a node has for requests, counted without looking for a fit
| node_search          looks for devices on a node where picking them one by one does not do
counting               how many times claims with one request fit
| node_score           how well a node suits a pod with alternatives or preferences
| shortages            why a node does not fit: what excludes each device
| together             devices for several nodes at once, where nodes share devices
candidates             the eligible devices of a node, looked at one by one
| fingerprint          equal for nodes that give the same answer
| greedy               the first devices that fit, found with bitsets
eligibility            whether one device by itself is eligible, and what it would consume
| possessed            what devices have of what a selector reads, for its author
"""
