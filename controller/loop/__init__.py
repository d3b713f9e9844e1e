"""The running controller: takes in changes, decides about one pod or claim at a time, and carries decisions out.

Controller    queue, reflectors and one step at a time; no threads
PodSync       decides about one pod and carries the decision out; ClaimSync the same for a claim nobody uses
ClaimWriter   writes to claims, also those whose answer was lost
PodWriter     writes to pods: our condition, the nominated node, our gate
Reporter      conditions and Events that say why a pod waits
ObjectReader  reads objects again after a failed write
"""

from controller.loop.controller import Controller

__all__ = ["Controller"]
