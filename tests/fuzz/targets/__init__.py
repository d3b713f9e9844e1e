"""The programs' doors to what others write, as functions of bytes that fail if one of them is not kept.

``cluster``: the objects of a cluster. ``texts``: what is written in a language of its own. ``node``: the files and the
callers of a node. ``plugins``: what vendors' device plugins say. ``page``: what the page of ``lode ui`` shows, and who
asks for it.
"""

from collections.abc import Mapping
from typing import Final

from tests.fuzz.targets import cluster, node, page, plugins, texts
from tests.fuzz.targets.target import Target

TARGETS: Final[Mapping[str, Target]] = {
    target.name: target for target in (*cluster.TARGETS, *texts.TARGETS, *node.TARGETS, *plugins.TARGETS, *page.TARGETS)
}
"""Every target by its name."""
