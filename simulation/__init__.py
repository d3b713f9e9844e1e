"""The system without a cluster: real programs, an API in memory, and fakes of the Kubernetes components.

``lode demo`` runs it; the two programs and the other subcommands do not, so the cluster image leaves it out. What only
tests need, such as the cluster on a virtual clock, its faults and its checks, is in `tests.simulation`.

realtime              the real programs with threads and sockets, over an API in memory
invariants            invariants of a cluster at all times
kubernetes            fakes of the Kubernetes components
container_runtime     what a container gets for its CDI ids
| node                a node: what survives a restart of the programs on it
"""
