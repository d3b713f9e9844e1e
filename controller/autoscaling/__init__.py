"""What autoscalers are told: which pods a new node would help, and which nodes must be left alone.

newnodes       finds pods that a new node would take
| protecting   keeps autoscalers from nodes where devices are held behind our gate
"""

from controller.autoscaling.newnodes import NewNodes, NodeWishes, wish_of
from controller.autoscaling.protecting import Protecting

__all__ = ["NewNodes", "NodeWishes", "Protecting", "wish_of"]
