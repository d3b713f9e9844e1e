"""The running controller: takes in changes, decides about one pod or claim at a time, and has decisions carried out.

Controller    queue, reflectors and one step at a time; no threads, and no calls of the API
Contact       whether what is known of the cluster is still kept up to date
PodSync       decides about one pod; ClaimSync the same for a claim nobody uses
GangSync      decides about one gang, and has PodSync carry out what that means for each member
Underway      what is being written: what counts meanwhile, what is in doubt, what is repeated
PodWaits      the pods that wait: what wakes them, and the nodes that are held back for them
"""

from controller.loop.controller import Controller

__all__ = ["Controller"]
