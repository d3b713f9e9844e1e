"""Orders the devices that are sufficient (``PlacementConfig``). Without a preference, it is not used.

device_order     the order in which devices of one node are tried
partition_cost   the partitions that are lost if one is used
"""
