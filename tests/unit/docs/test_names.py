"""One noun, one thing."""

import ast
from collections import defaultdict

from tests.unit.docs.pages import ROOT
from tests.unit.docs.source_files import tree, written_files

PRODUCT = ("cli", "controller", "driver", "kubeletplugin", "memoryapi", "simulation")


def test_a_public_class_of_the_product_has_a_name_of_its_own() -> None:
    found = defaultdict[str, list[str]](list)
    for folder in PRODUCT:
        for path in written_files(folder):
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
