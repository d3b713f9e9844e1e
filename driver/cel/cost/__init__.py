"""What an evaluation costs: the budget, the cost of each call, and the expressions that need no counting.

The estimate of the cost at admission is in `driver.cel.estimation`.

call_costs   the cost of each call at run time
| metering   the expressions that need no metering
budget       the limits of one evaluation
| factors    the factors of Kubernetes' cost model
| steps      a measure of work whose time has a bound
"""
