"""Publishes the node's devices as ResourceSlices: compares the published slices with the desired ones, and writes.

publisher           the loop: watches, compares, writes
pool                the pool that should be published
| writer            carries writes of slices out
dropped             fields that the API server does not store
| metrics           metrics of publishing
| rewrite_backoff   back-off between writers that overwrite each other's slices
| validation        the API server's rules for slices
cards               the cards as last reported by the hardware
| poolview          the Node and its slices as last observed
| reports           logs an error of every round once
| schedule          times of the steps
| slices            the slices for devices and counter sets, and the fewest writes that lead to them
other_programs      which cards other programs hand out, as far as answers have not taken that away
other_drivers       signs of other programs in the Node, the slices and the kubelet's answers
"""

from kubeletplugin.publish.metrics import PublishingMetrics
from kubeletplugin.publish.publisher import Publisher

__all__ = ["Publisher", "PublishingMetrics"]
