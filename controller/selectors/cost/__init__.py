"""What an evaluation costs: the budget, the cost of each call, and the expressions that need no counting.

The estimate of the cost at admission is not here but in `memoryapi.cel_cost`.
"""
