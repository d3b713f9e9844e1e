"""docs/operating.md lists every setting with its default, and every metric."""

import re
from typing import Any

import pytest
from pydantic import BaseModel

from driver.settings import Settings
from tests.unit.docs.pages import ROOT, page

PAGE = page("docs/operating.md")


def settings_of(model: type[BaseModel], prefix: str = "") -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for field in model.model_fields.values():
        name = f"{prefix}{field.alias}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            settings |= settings_of(field.annotation, f"{name}.")
        else:
            settings[name] = field.get_default()
    return settings


@pytest.mark.parametrize(("name", "default"), sorted(settings_of(Settings).items()))
def test_a_setting_is_listed_with_its_default(name: str, default: Any) -> None:
    text = f"[{', '.join(default)}]" if isinstance(default, tuple) else str(default) or '""'
    assert f"| `{name}` | `{text}` |" in PAGE


def metrics_in_code() -> set[str]:
    created = re.compile(r'\.(counter|gauge|histogram)\(\s*"(\w+)"')
    return {
        f"lode_{name}{'_total' if kind == 'counter' else ''}"
        for package in ("driver", "controller", "kubeletplugin")
        for path in (ROOT / package).rglob("*.py")
        for kind, name in created.findall(path.read_text())
    }


def test_exactly_the_metrics_that_exist_are_listed() -> None:
    assert set(re.findall(r"^\| `(lode_\w+)` \|", PAGE, re.MULTILINE)) == metrics_in_code()
