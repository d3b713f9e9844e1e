"""The versions of Kubernetes that the rules here tell apart, as major and minor. Pure.

1.38 refuses what 1.37 takes, and takes nothing that 1.37 refuses.
"""

from typing import Final

Version = tuple[int, int]

V1_37: Final[Version] = (1, 37)
V1_38: Final[Version] = (1, 38)
