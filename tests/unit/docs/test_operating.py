"""docs/operating.md tells every setting, its default, and every metric."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from driver.settings import Settings

ROOT = Path(__file__).parent.parent.parent.parent
PAGE = (ROOT / "docs" / "operating.md").read_text()


def settings_of(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in model.model_fields.values():
        name = f"{prefix}{field.alias}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= settings_of(field.annotation, f"{name}.")
        else:
            found[name] = field.get_default()
    return found


@pytest.mark.parametrize(("name", "default"), sorted(settings_of(Settings).items()))
def test_a_setting_is_told_with_its_default(name: str, default: Any) -> None:
    said = f"[{', '.join(default)}]" if isinstance(default, tuple) else str(default) or '""'
    assert f"| `{name}` | `{said}` |" in PAGE


def metrics_in_code() -> set[str]:
    made = re.compile(r'\.(counter|gauge|histogram)\(\s*"(\w+)"')
    return {
        f"lode_{name}{'_total' if kind == 'counter' else ''}"
        for room in ("driver", "controller", "kubeletplugin")
        for path in (ROOT / room).rglob("*.py")
        for kind, name in made.findall(path.read_text())
    }


def test_exactly_the_metrics_that_exist_are_told() -> None:
    assert set(re.findall(r"^\| `(lode_\w+)` \|", PAGE, re.MULTILINE)) == metrics_in_code()
