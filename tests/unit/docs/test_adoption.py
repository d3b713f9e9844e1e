"""docs/adoption.md names what the tables of `driver.adoption` have."""

import re

import pytest

from driver.adoption import SOURCES
from driver.adoption.chips import CHIPS, STATIC_VNPUS
from driver.adoption.naming import ESCAPES
from driver.adoption.rules import Values
from tests.unit.docs.pages import page

PAGE = page("docs/adoption.md")
FAMILIES = {
    **{f"{chip.resource}{part}": "huawei.com/Ascend<chip>" for chip in CHIPS for part in ("", "-memory", "-core")},
    **{it.resource: f"{it.resource.partition('-')[0]}-<vNPU>" for it in STATIC_VNPUS},
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_resource_annotation_and_label_is_named(name: str) -> None:
    source = SOURCES[name]
    resources = {FAMILIES.get(it, it) for it in source.listed}
    resources |= {"nvidia.com/mig-<profile>"} if source.migs else set()
    resources |= {"nvidia.com/gpu.shared", "nvidia.com/mig-<profile>.shared"} if source.refused else set()
    annotations = {re.sub(r"Ascend[0-9A-Z-]+-uuid", "Ascend<chip>-uuid", it) for it in source.annotations}
    keys = {*annotations, *source.labels, *source.outputs}
    keys |= {rule.key for rule in source.rules if isinstance(rule, Values)}
    missing = [it for it in (*resources, *keys) if f"`{it}`" not in PAGE and f"`{it}:" not in PAGE]
    assert not missing, f"add {missing} to the tables of docs/adoption.md"
    assert f"`{name}`" in PAGE


def test_every_escape_is_named() -> None:
    assert all(f"`-{letter}`" in PAGE for letter in ESCAPES.values())
