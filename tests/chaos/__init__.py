"""Hours of faults on a kind cluster, in which the world itself is asked whether the invariants hold: ``make chaos``.

__main__       the command line
running        plays faults: pods come and go, a fault is done, and then all has to be as it should be
stage          what a run needs of a cluster, and how a kind cluster does it
injecting      does faults to a cluster
fixtures       installs Lode, a device plugin under it, another driver beside it, and small disks
| reading      reads the world: the API, the disks of nodes, and what containers see
manifests      the objects of Lode, from what a version's manifests say. Pure.
| table        the table of a run. Pure.
| judging      what is wrong in a reading, and what has lasted too long. Pure.
world          a reading of the world, as values. Pure.
| workload     which pods there are at each turn, from a seed
| schedule     which faults come when, from a seed
"""
