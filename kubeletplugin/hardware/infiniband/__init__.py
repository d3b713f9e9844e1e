"""The InfiniBand fabric that the node's cards are attached to, as its host channel adapters (HCAs) report it.

attached   adds fabric and rail to cards
reading    reads HCAs and their ports from ``/sys``
ports      the fabric, and the rail of each card, from the ports
"""

from kubeletplugin.hardware.infiniband.attached import Attachments

__all__ = ["Attachments"]
