"""Decides which devices a claim gets and on which node its pod runs, and has that written.

__main__      ``lode controller``: puts the controller together, with its threads
loop          takes in changes, and decides about one pod, gang or claim at a time
reporting     says why pods wait: conditions and Events
writing       carries decisions out: what each means as writes, many of them in flight
election      leader election with one Lease
| policies    whether the admission policies are in force
| reconcile   what to do about one pod, gang or claim
| waiting     which pods wait, and in which order they are served
state         what is known of the cluster, indexed
gangs         pods that start together, in one domain of the topology
placement     a plan: the node of each pod of a group
allocation    devices of a node for claims, or the reasons why not
"""
