"""Fits one compiled request to one node: eligible devices, the number of fits, the score, and the reasons for none.

counts            counts the devices of a node, and how many times claims fit, without a search
| score           the score of a node for a pod with alternatives or preferences
fit               the first devices that fit, found with bitsets, or else by a search
shortages         the reasons why a node does not fit, by device, with what it has instead
| closer          which cards a request got and why no closer ones, where pairs differ in their links
| likeness        keys that are equal for nodes with the same answer
candidates        the eligible devices of a node, looked at one by one
device_order      the order in which devices of one node are tried
closest           the set of free cards that are closest to one another, where pairs differ in their links
| partition_cost  the partitions that are lost if one is used
"""
