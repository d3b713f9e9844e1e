"""The InfiniBand fabric that the node's cards are attached to, as its host channel adapters (HCAs) report it.

attached   adds fabric and rail to the cards of other hardware
reading    reads HCAs and their ports from ``/sys``
ports      what the ports say about the fabric
"""

from kubeletplugin.hardware.infiniband.attached import Attachments

__all__ = ["Attachments"]
