"""The whole system in one thread, on a virtual clock: what fails is drawn by seed, and checks look at every step.

gang_checks              invariants of gangs in a settled cluster
| jobset_controller      the fake controller of JobSets
restores                 a backup of etcd is restored
settled_checks           invariants of a settled cluster
| unserved_checks        whether pods could be evicted for somebody who waits
eviction_checks          invariants of evictions, when they are made and in the end
| eviction_webhooks      webhooks of others that keep pods from being evicted
template_checks          invariants of templates on demand
node_checks              invariants of what is prepared on a node, and of what is said about it
offer_checks             what nodes offer, compared with a program that starts now
cluster                  a whole cluster in one thread, on one API and one virtual clock
binding                  how kube-scheduler binds pods
program_slots            the programs, one call at a time: started, killed, stalled, interleaved
hardware_checks          invariants of the cards of a node
late_writes              writes that hang, and are carried out late or never
state_checks             invariants of what a controller knows
| fleet_checks           invariants of what monitoring is shown
write_checks             invariants of every write
gang_search              whether a gang fits, found by trying every node for every member
gang_write_checks        invariants of writes about gangs
disk_checks              invariants of the disk of a node
| template_write_checks  what a controller may do to claim templates
settled_invariants       what holds in every settled cluster, of any kind
node                     a node in memory, which may reboot and lose files
files                    a disk in memory, which loses what was not synced
hardware                 cards that may fail or not answer
| misreadings            questions to cards that have no answer
bridged_node             a node with vendors' device plugins: their backend for each program
device_plugin_checks     invariants of IDs in the hands of claims, and of what device plugins are asked
device_plugins           device plugins that fail, lie, hang and come back with something else
process                  one run of a program, which may crash, stall or be interleaved
programs                 the two programs, each built from what is in the API and on its node
victim_checks            invariants of evictions when they are decided
decision_checks          invariants of every allocation
| hold_checks            invariants of nodes that are held back
gang_values              invariants of the values that members of gangs have in common, or apart
faults                   faults of the network and the API server, and crashes of programs
| rivals                 other writers that are faster than a program
stepped_writes           the port of writes: one call a step, in any order
| named_drivers          drivers of others that the policies name, and who acts on that
| clock                  a clock that only its owner advances
| disruption_controller  how many pods of a budget may be evicted
access                   which kinds the API serves, and which rights programs have
older_controller         allocations that do not say which cards they have
closed_devices           devices that nobody else is let go on
closed_nodes             nodes that a condition closes
device_status_checks     what the status of an allocated claim says about its devices
hostile                  objects with hostile values, which programs read beside the stored ones
kubernetes_version       the version of Kubernetes of a history, and its controllers
event_log                the latest lines of a cluster's log, and counts of writes
"""
