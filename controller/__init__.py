"""Decides which devices a claim gets and on which node its pod runs, and has that written.

__main__       ``lode controller``: puts the controller together, with its threads
fleetseries    serves the series of the fleet to those who monitor it
loop           takes in changes, and decides about one pod, gang or claim at a time
kueue          jobs in the queues of Kueue: whether their pods would get their devices now
| preemption   pods that are evicted for others of higher priority: who has to go, and what is kept
| templates    templates on demand: made when a pod names them, and removed
| autoscaling  what autoscalers are told: which pods a new node would help, and which nodes must stay
| quotauses    what is used of quotas, in their status
| reporting    reports why pods wait: conditions and Events
worker         the protocol of what the loop runs, and what all of it uses
writing        carries decisions out, as many writes in flight
election       leader election with one Lease
| policies     checks that the admission policies are in force
| explaining   why no node takes a pod: asks each node, groups what they say, renders it
| census       what the fleet has, who holds it and who waits, for monitoring
reconcile      decides about one pod, gang or claim
| waiting      the pods that wait, and the order in which they are served
state          the state of the cluster, indexed
membership     which pods are a gang, and on what terms it starts, as users say it
gangs          pods that start together, in one domain of the topology
cluster        devices, nodes and quotas, and what would be if some were gone, or others were there
placement      a node for a pod
| quotas       limits of namespaces in memory and cores of cards
allocation     devices of a node for claims, or the reasons why not
| refusal      why there is no place: one type for all who look for one
"""
