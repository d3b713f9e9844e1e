"""The claim in README.md is that of the manifests and matches a card that the driver publishes."""

import re

import yaml

from driver.cel import compile_selector
from driver.files import SystemFiles
from driver.kinds import EVERY_OFFER
from driver.names import Names
from driver.settings import Settings
from driver.wire import claim_spec_from
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.inventory import Fabric, build_inventory
from tests.unit.docs.pages import ROOT


def test_the_pod_in_the_readme_is_that_of_the_file_that_it_tells_to_apply() -> None:
    (block,) = re.findall(r"```yaml\n(apiVersion: resource.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert (ROOT / "manifests/kind-examples/first-pod.yaml").read_text().partition("\n")[2] == block


def test_the_selector_in_the_readme_matches_an_h100() -> None:
    (block,) = re.findall(r"```yaml\n(apiVersion: resource.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    template = next(iter(yaml.safe_load_all(block)))
    (request,) = claim_spec_from(template["spec"]["spec"]).requests
    (expression,) = request.wants[0].selectors
    files, names = SystemFiles(), Names()
    cards = SimulatedHardware(load_profile("h100x8", files), "node", files, "").cards()
    offered = build_inventory(cards, Fabric(), EVERY_OFFER, Settings().kubeletplugin.slots, names).devices
    assert compile_selector(expression).matches(offered[0], names.driver)
