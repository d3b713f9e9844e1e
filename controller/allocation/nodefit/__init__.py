"""Fits one compiled request to one node: eligible devices, the number of fits, the score, and the reasons for none.

node_device_counts   counts the devices of a node for requests, without a search for a fit
| node_search        searches devices on a node where the first fit is not a solution
counting             counts how many times claims with one request fit
| node_score         the score of a node for a pod with alternatives or preferences
| shortages          the reasons why a node does not fit, by device
| together           devices for several nodes at once, where nodes share devices
candidates           the eligible devices of a node, looked at one by one
| fingerprint        a key that is equal for nodes with the same answer
| greedy             the first devices that fit, found with bitsets
eligibility          the eligibility of one device by itself, and the consumption of a request
| possessed          the values that a selector reads of devices, for its author
"""
