"""Publishing the node's devices as ResourceSlices: what they should say, and the writes that make them say it.

publisher           the loop: watches, compares, writes what differs
pool                what should be published
| writer            carries writes of slices out
dropped             fields that the API server does not store
| metrics           metrics of publishing
| rewrite_backoff   how often the same slices are written again
| validation        the API server's rules for slices
cards               the cards as last reported by the hardware
| poolview          the Node and its slices as last observed
| reports           logs an error of every round once
| schedule          when to compare again, and how thoroughly
| slices            the slices for devices and counter sets, and the fewest writes that lead to them
other_drivers       which cards another driver hands out
"""

from kubeletplugin.publish.metrics import PublishingMetrics
from kubeletplugin.publish.publisher import Publisher

__all__ = ["Publisher", "PublishingMetrics"]
