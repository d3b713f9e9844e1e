"""docs/settings.md lists every setting with its default, and the memory that the manifest requests."""

import re
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from benchmarks.memory.sizes import SIZES
from driver.quantity import Quantity
from driver.settings import Settings
from kubeletplugin.hardware.simulated import shipped_profiles
from tests.unit.docs.pages import ROOT, page

PAGE = page("docs/settings.md")


def settings_of(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for field in model.model_fields.values():
        name = f"{prefix}{field.alias}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            settings |= settings_of(field.annotation, f"{name}.")
        else:
            settings[name] = field.get_default(call_default_factory=True)
    return settings


@pytest.mark.parametrize(("name", "default"), sorted(settings_of(Settings).items()))
def test_a_setting_is_listed_with_its_default(name: str, default: Any) -> None:
    text = f"[{', '.join(default)}]" if isinstance(default, tuple) else str(default) or '""'
    assert f"| `{name}` | `{text}` |" in PAGE


@pytest.mark.parametrize("name", shipped_profiles())
def test_a_shipped_profile_is_listed(name: str) -> None:
    assert f"`{name}`" in page("docs/nodes.md")


def megabytes(column: int) -> dict[str, int]:
    """A column of the table of memory, in MiB by nodes and offer."""
    rows = re.findall(r"^\| ([\d,]+ \| (?:whole|every way)) \|(.+)\|$", PAGE, re.MULTILINE)
    return {name: int(cells.split("|")[column].replace(",", "")) for name, cells in rows}


def test_the_manifest_requests_the_memory_that_was_measured() -> None:
    documents = yaml.safe_load_all((ROOT / "manifests/controller/controller.yaml").read_text())
    (container,) = next(d for d in documents if d["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"]
    requested, limit = (
        Quantity.parse(container["resources"][kind]["memory"]).value / 2**20 for kind in ("requests", "limits")
    )
    peak, settled = megabytes(3), megabytes(4)
    assert len(peak) == len(SIZES)
    assert settled["1,050 | every way"] <= requested <= 1.5 * settled["1,050 | every way"]
    assert limit >= 2 * max(peak.values())
