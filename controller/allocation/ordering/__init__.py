"""Which of the sufficient devices come first (``PlacementConfig``). Without a preference, this is not used.

device_order     the order in which devices of one node are tried
partition_cost   which partitions are lost if one is used
"""
