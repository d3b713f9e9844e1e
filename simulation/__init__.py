"""The whole system without a cluster: a virtual clock, faults on demand, and fake Kubernetes components.

The tests and ``lode demo`` use it. The two programs and the other subcommands do not, so the cluster image leaves it
out.

gang_checks           invariants of gangs in a settled cluster
restores              a backup of etcd is restored
| settled_checks      invariants of a settled cluster
cluster               a whole cluster in one thread, on one API and one virtual clock
| realtime            the real programs with threads and sockets, over an API in memory
program_slots         the programs, one call at a time: started, killed, stalled, interleaved
hardware_checks       invariants of the cards of a node
| invariants          invariants of a cluster at all times
| late_writes         writes that hang, and are carried out late or never
| programs            the two programs, each built from what is in the API and on its node
| state_checks        invariants of what a controller knows
| write_checks        invariants of every write
decision_checks       invariants of every allocation
| hold_checks         invariants of nodes that are held back
| gang_search         whether a gang fits, found by trying every node for every member
| gang_write_checks   invariants of writes about gangs
| kubernetes          fakes of the Kubernetes components
container_runtime     what a container gets for its CDI ids
| disk_checks         invariants of the disk of a node
| node                hardware and disk of a node: what survives a restart and a reboot
| process             one run of a program, which may crash, stall or be interleaved
access                which kinds the API serves, and which rights programs have
| clock               a clock that only its owner advances
| faults              faults of the network and the API server, and crashes of programs
| files               a disk in memory, which loses what was not synced
| hardware            cards that may fail or not answer
| hostile             objects with hostile values, which programs read beside the stored ones
event_log             the latest lines of a cluster's log, and counts of writes
| rivals              other writers that are faster than a program
"""
