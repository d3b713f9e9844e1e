"""docs/requests.md lists exactly the attributes that devices have."""

import re

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
            SimulatedHardware(load_profile(profile, files), "node", files, "").cards(),
            Fabric(),
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
