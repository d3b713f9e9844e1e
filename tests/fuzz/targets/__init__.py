"""The programs' doors to what others write, as functions of bytes that fail if one of them is not kept.

``cluster``: the objects of a cluster. ``texts``: what is written in a language of its own. ``node``: the files and the
callers of a node.
"""

from collections.abc import Mapping
from typing import Final

from tests.fuzz.targets import cluster, node, texts
from tests.fuzz.targets.target import Target

TARGETS: Final[Mapping[str, Target]] = {
    target.name: target for target in (*cluster.TARGETS, *texts.TARGETS, *node.TARGETS)
}
"""Every target by its name."""
