"""The running controller: takes in changes, decides about one pod, gang or claim at a time, has decisions carried out.

It has no threads and calls no API: reflectors feed it, and ``controller.writing`` carries out what it decides.

controller         queue, reflectors and one step at a time
contact            whether what is known of the cluster is still kept up to date
| gangsync         decides about one gang, and has that carried out for each member
| claimsync        decides about one claim that nobody uses
gangholds          nodes that are held back for gangs
| podsync          decides about one pod, and has that carried out
podwaits           the pods that wait: what wakes them, and the nodes held back for them
shared             the objects that all parts use
turns              when pods, gangs and claims are decided
writes_in_flight   what is being written, what counts meanwhile, and what is repeated
metrics            the controller's metrics
| queue            keys with due times
| timeline         when what objects say happened, on the clock of this program
"""

from controller.loop.controller import Controller, Ports

__all__ = ["Controller", "Ports"]
