"""Publishing the node's devices as ResourceSlices: what they should say, and the writes that make them say it.

``publisher`` runs the loop; ``schedule`` says when it compares, ``poolview`` and ``cards`` what it compares, ``pool``
what should be published, ``slices`` which writes that takes, ``writer`` carries them out. ``pace`` and ``dropped`` keep
it from writing the same for ever against another writer or a feature gate.
"""

from kubeletplugin.publish.metrics import PublishingMetrics
from kubeletplugin.publish.publisher import Publisher

__all__ = ["Publisher", "PublishingMetrics"]
