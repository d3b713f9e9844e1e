"""The search for devices where the first fit is not a solution: bounds by counting first, then trying in order.

search       depth first, in the order of kube-scheduler's allocator
bounds       prunes by counting
cells        open requests and their candidates, counted in cells
| flow       maximum flow: enough devices for several needs that compete for them
symmetry     interchangeable devices
attempt      the devices picked so far, what they leave, and undoing picks
"""
