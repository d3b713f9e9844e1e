"""``lode top``, ``kubectl lode top``: what is used, as a table. Reads only.

run           reads a subject, prints its report, once or again and again
nodes         the cards of each node, by what they are in
| claims      which card each claim has, and how much of it
| namespaces  what the claims of each namespace hold, what its quotas allow, and how many pods wait
| costs       what the cards cost that each namespace or workload holds, and idle ones
| gangs       how many members each gang has and needs, where they are, and why it waits
| cards       what each card is in, and who holds it
| prometheus  the port to a Prometheus server, over HTTP
question      what is asked for
| report      rows of a subject, as a table, JSON and YAML
prices        what cards cost: a table of prices by type
| measured    what cards do, as exporters of the vendors measure it and Prometheus answers
"""
