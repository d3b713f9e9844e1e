"""Hours of faults on a kind cluster, in which the world itself is asked whether the invariants hold.

table          the table of a run. Pure.
| judging      what is wrong in a reading, and what has lasted too long. Pure.
world          a reading of the world, as values. Pure.
| workload     which pods there are at each turn, from a seed
| schedule     which faults come when, from a seed
"""
