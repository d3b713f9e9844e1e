"""README.md: the claim is that of the manifests, its selector matches a card, and commands print what is shown."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from cli.__main__ import main as lode
from cli.shipped import device_classes
from driver.cel import compile_selector
from driver.files import SystemFiles
from driver.kinds import EVERY_OFFER
from driver.kube.api import Object
from driver.names import Names
from driver.settings import Settings
from driver.wire import claim_spec_from
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile
from kubeletplugin.inventory import Fabric, build_inventory
from tests.unit.cli.cluster import allocated, claim, listed, node, slices, stored
from tests.unit.cli.simulated_api import serve
from tests.unit.docs.consoles import assert_printed, commands, steps, unwrapped
from tests.unit.docs.pages import ROOT, page

CARDS = {"gpu-1": ("h100x8", "ib-a"), "gpu-2": ("a100x4", "ib-b"), "gpu-3": ("h100x8", "ib-a")}
"""The nodes of the page, with their profile and InfiniBand cluster; gpu-3 is cordoned."""


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


@pytest.fixture
def cluster() -> list[Object]:
    offer = {"gpu-2": EVERY_OFFER}
    cards = [
        part
        for name, (profile, fabric) in CARDS.items()
        for part in slices(name, profile, offer.get(name, ("whole",)), fabric)
    ]
    nodes = [stored(node(name)) for name in CARDS]
    nodes[-1]["spec"] = {"unschedulable": True}
    holder = allocated(claim("pretrain-gpus"), "gpu-1/gpu-0", "pretrain")
    (result,) = holder["status"]["allocation"]["devices"]["results"]
    holder["status"]["allocation"]["devices"]["results"] = [{**result, "device": f"gpu-{i}"} for i in range(8)]
    return [*cards, *device_classes(), *nodes, holder]


def test_a_refused_pod_is_explained_as_the_readme_shows(
    cluster: list[Object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = yaml.safe_load_all((ROOT / "manifests/kind-examples/first-pod.yaml").read_text())
    serve(monkeypatch, [*cluster, *pod])
    (command, told), _ = commands(page("README.md"))
    lode(["explain", *shlex.split(command)[3:]])
    printed, _, claims = capsys.readouterr().out.partition("\n\n")
    assert_printed(printed, unwrapped(told))
    assert [line.split() for line in claims.splitlines()] == [
        ["CLAIM", "REQUEST", "POOL", "DEVICE", "CONSUMES", "HELD", "BY"],
        ["train-gpu-sh4xf", "<pending>", "<none>"],
    ]


def test_a_gang_is_simulated_as_the_readme_shows(
    cluster: list[Object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--live`` is the cluster, and ``gang.yaml`` is that of the tutorial."""
    _, (command, told) = commands(page("README.md"))
    assert command == "lode simulate --live -f gang.yaml | tail -n 2"
    (gang,) = [step.text for step in steps(page("docs/tutorials/gang.md")) if step.file == "gang.yaml"]
    (tmp_path / "cluster.yaml").write_text(listed(*cluster))
    (tmp_path / "gang.yaml").write_text(gang)
    lode(["simulate", "-f", str(tmp_path)])
    assert_printed("\n".join(capsys.readouterr().out.splitlines()[-2:]), unwrapped(told))


def test_what_commands_print_is_at_most_99_columns_wide() -> None:
    told = [line for _, told in commands(page("README.md")) for line in told]
    assert [line for line in told if len(line) > 99] == []
