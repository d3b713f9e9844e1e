"""The running controller: takes in changes, decides about one pod, gang or claim at a time, has decisions carried out.

It has no threads and calls no API: reflectors feed it, and ``controller.writing`` carries out its decisions. Features
that stand alone have their workers in packages of their own.

controller         the list of workers, one step at a time, and what comes first in the queue
contact            reads every kind of object that decisions need, and follows whether it is up to date
| gangsync         decides about one gang, and has that carried out for each member
| claimsync        decides about one claim that nobody uses
podsync            decides about one pod, and has that carried out
reasons            why pods wait: what is said of it, and when
holds              the nodes that are held back for pods and gangs
waiting            the pods that wait: parks and wakes them
"""

from controller.loop.controller import Controller, Ports

__all__ = ["Controller", "Ports"]
