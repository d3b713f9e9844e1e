"""docs/requests.md lists exactly the attributes that devices have, and every parameter is described."""

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from driver import parameters
from driver.adoption.spelling import FIXED_WORDS, NUMBERED_WORDS
from driver.files import SystemFiles
from driver.kinds import EVERY_OFFER
from driver.names import Names
from driver.settings import Settings
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile, shipped_profiles
from kubeletplugin.inventory import Fabric, build_inventory
from tests.unit.docs.pages import page

SECTION = page("docs/requests.md").partition("## Attributes")[2].partition("\n## ")[0]


def published() -> set[str]:
    files, names = SystemFiles(), Names()
    inventories = [
        build_inventory(
            [
                card
                for card in SimulatedHardware(load_profile(profile, files), "node", files, "").cards()
                if not card.bridged  # docs/deviceplugins.md has what those have besides
            ],
            Fabric(container_runtime="containerd://2.1.4"),
            EVERY_OFFER,
            Settings().kubeletplugin.slots,
            names,
        )
        for profile in shipped_profiles()
    ]
    return {name for inventory in inventories for device in inventory.devices for name in device.attributes}


def test_exactly_the_attributes_that_devices_have_are_listed() -> None:
    rows = re.findall(r"^\| (`.*?) \| \w+ \|", SECTION, re.MULTILINE)
    own = {f"{Names().driver}/{name}" for row in rows for name in re.findall(r"`(\w+)`", row)}
    standard = set(re.findall(r"`(pcieRoot|pciBusID|numaNode)`", SECTION.partition("Standard attributes")[2]))
    assert own | {f"resource.kubernetes.io/{name}" for name in standard} == published()


KINDS = [
    kind
    for name, kind in vars(parameters).items()
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind is not BaseModel and not name.startswith("_")
]


def values_of(annotation: Any) -> Iterator[str]:
    """The values that a field is restricted to."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from values_of(part)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_and_value_is_described(kind: type[BaseModel]) -> None:
    said = set(re.findall(r"\w+", page("docs/requests.md") + page("docs/gangs.md")))
    fields = {field.alias or name: set(values_of(field.annotation)) for name, field in kind.model_fields.items()}
    missing = sorted(set(fields).union(*fields.values()) - said)
    assert not missing, f"docs/requests.md and docs/gangs.md do not mention {missing}"


def test_every_word_of_a_template_on_demand_is_described() -> None:
    section = page("docs/requests.md").partition("## Templates on demand")[2].partition("\n## ")[0]
    missing = [word for word in (*FIXED_WORDS, *NUMBERED_WORDS) if f"`{word}`" not in section]
    assert not missing, f'docs/requests.md does not mention {missing} under "Templates on demand"'
