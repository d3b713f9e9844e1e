"""What an evaluation costs: the budget, the cost of each call, and the expressions that need no counting.

The estimate of the cost at admission is not here but in `memoryapi.cel_cost`.

call_costs   the cost of each call at run time
| metering   the expressions that need no metering
budget       the limits of one evaluation
| factors    the factors of Kubernetes' cost model
| limits     what selectors may cost in a cluster
"""
