"""The system without a cluster: real programs, an API in memory, and fakes of the Kubernetes components.

``lode demo`` and the tests use it. The two programs and the other subcommands do not, so the cluster image leaves it
out. What only tests need, such as the cluster on a virtual clock and its checks, is in `tests.simulation`.

realtime              the real programs with threads and sockets, over an API in memory
invariants            invariants of a cluster at all times
| programs            the two programs, each built from what is in the API and on its node
victim_checks         invariants of evictions when they are decided
decision_checks       invariants of every allocation
| hold_checks         invariants of nodes that are held back
| kubernetes          fakes of the Kubernetes components
container_runtime     what a container gets for its CDI ids
| node                hardware and disk of a node: what survives a restart and a reboot
clock                 a clock that only its owner advances
| faults              faults of the network and the API server, and crashes of programs
| files               a disk in memory, which loses what was not synced
rivals                other writers that are faster than a program
"""
