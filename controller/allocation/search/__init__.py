"""The search for devices where the first fit is not a solution: bounds by counting first, then trying in order.

search            depth first, in the order of kube-scheduler's allocator
bounds            what cannot succeed, found by counting
amount_bounds     whether the least that requests consume, summed up, fits into what is left
candidate_cells   open requests and their candidates, counted in cells
| flow            maximum flow: enough devices for several needs that compete for them
symmetry          which devices are interchangeable
tasks             what a search has to find
attempt           the devices picked so far, what they leave, and undoing picks
"""
