"""What containers use of their shares is shown for prepared claims, in our names and in those of HAMi's monitor."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from driver.observe import logger
from kubeletplugin.kubelet_devices import KubeletClaim
from kubeletplugin.prepare import NamedClaim
from kubeletplugin.reused import LEAST_SECONDS
from kubeletplugin.share_usage import HAMI, OWN, ShareUsage
from simulation.kubernetes.plugin_client import PluginClient
from tests.simulation.clock import VirtualClock
from tests.unit.docs.pages import page
from tests.unit.kubeletplugin.hami_regions import UUID, put_region, recorded
from tests.unit.kubeletplugin.test_main import api_with_node, running, settings, wait_for

GIB = 2**30
ONE, TWO = 2690650112, 4307558400
"""Bytes that the recorded processes used."""


class Node:
    """A node on which one claim is prepared."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.clock = VirtualClock()
        self.claims: dict[str, NamedClaim] = {"uid-1": NamedClaim("team", "c", {"gpu-3-share": UUID})}
        self.containers: list[KubeletClaim] = []
        self.asked = 0
        self.usage = ShareUsage(str(folder), lambda: self.claims, self._ask, self.clock, logger("test"))

    def put(self, name: str, claim: str = "uid-1", card: str = UUID) -> Path:
        return put_region(self.folder, card, claim, recorded(name))

    def later(self) -> None:
        self.clock.sleep(LEAST_SECONDS)

    def _ask(self) -> list[KubeletClaim]:
        self.asked += 1
        return self.containers


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def samples(text: bytes) -> Mapping[str, list[tuple[Mapping[str, str], float]]]:
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_the_memory_that_a_claim_uses_is_shown_with_its_device_and_card(node: Node) -> None:
    node.put("one")
    named = {"claim_namespace": "team", "claim": "c", "device": "gpu-3-share", "uuid": UUID}
    assert samples(node.usage.own()) == {"lode_claim_memory_used_bytes": [(named, ONE)]}
    assert not node.asked, "our own names need no kubelet"


def test_hamis_names_say_the_pod_and_the_container(node: Node) -> None:
    node.put("busy")
    node.containers = [
        KubeletClaim("other", "c", frozenset(), "q", "main"),
        KubeletClaim("team", "c", frozenset(), "p", "main"),
        KubeletClaim("team", "c", frozenset(), "p", "side"),
    ]
    named = {"namespace": "team", "pod": "p", "container": "main", "vdevice_index": "0", "device_uuid": UUID}
    assert samples(node.usage.hami()) == {
        "hami_vgpu_memory_used_bytes": [(named, 543166464)],
        "hami_vgpu_memory_limit_bytes": [(named, 16 * GIB)],
        "hami_container_device_utilization_ratio": [(named, 7)],
    }


def test_while_the_kubelet_is_silent_hamis_names_say_nothing(node: Node) -> None:
    node.put("one")
    assert node.usage.hami() == b""


def test_claims_that_meet_in_a_container_are_one_line_of_hamis(node: Node) -> None:
    node.claims["uid-2"] = NamedClaim("team", "d", {"gpu-3-share": UUID})
    node.put("one")
    node.put("two", claim="uid-2")
    node.containers = [KubeletClaim("team", name, frozenset(), "p", "main") for name in ("c", "d")]
    ((_, value),) = samples(node.usage.hami())["hami_vgpu_memory_used_bytes"]
    assert value == ONE + TWO


def test_a_container_that_writes_a_card_twice_spoils_no_answer(node: Node) -> None:
    path = node.put("one")
    content = bytearray(path.read_bytes())
    content[56] = 2
    content[64 + 96 : 64 + 96 + len(UUID)] = UUID.encode()
    path.write_bytes(content)
    ((_, value),) = samples(node.usage.own())["lode_claim_memory_used_bytes"]
    assert value == ONE


def test_files_of_claims_that_are_not_prepared_are_not_read(node: Node) -> None:
    node.put("one", claim="uid-2")
    assert node.usage.own() == b""


def test_a_file_that_names_another_card_shows_nothing_of_it(node: Node) -> None:
    node.put("one", card="GPU-of-somebody-else")
    assert node.usage.own() == b""


def test_what_cannot_be_read_is_logged_once_and_hides_nobody_else(node: Node) -> None:
    node.claims["uid-2"] = NamedClaim("team", "odd", {"gpu-3-share": UUID})
    node.put("two")
    node.put("one", claim="uid-2").write_bytes(b"nonsense")
    with capture_logs() as lines:
        for _ in range(3):
            assert [value for _, value in samples(node.usage.own())["lode_claim_memory_used_bytes"]] == [TWO]
            node.later()
    assert [(line["claim"], line["reason"]) for line in lines] == [("team/odd", "it has 8 bytes, a region has 2008952")]


def test_files_and_kubelet_are_asked_once_in_a_while_however_many_ask(node: Node) -> None:
    node.put("one")
    for _ in range(10):
        node.usage.own(), node.usage.hami()
    assert node.asked == 1
    node.put("two")
    assert b" 2690650112\n" in node.usage.own()
    node.later()
    assert b" 4307558400\n" in node.usage.own()


def test_every_name_is_listed() -> None:
    text = page("docs/metrics.md")
    own = re.findall(r"^\| `(lode_claim_memory\w+)` \|", text, re.MULTILINE)
    assert own == list(OWN)
    table = text.partition("kubeletplugin.peerMetrics")[2].partition("is not served")[0]
    assert re.findall(r"^\| `(hami_\w+)` \|", table, re.MULTILINE) == list(HAMI)


@pytest.mark.parametrize(
    ("chosen", "served"),
    [
        ({}, set()),
        ({"claimMetrics": True}, {"/metrics"}),
        ({"peerMetrics": ["hami"]}, {"/metrics/hami"}),
    ],
    ids=["by default", "claimMetrics", "peerMetrics"],
)
def test_the_program_serves_them_where_that_is_set(tmp_path: Path, chosen: Mapping[str, Any], served: set[str]) -> None:
    api, client = api_with_node(), PluginClient(str(tmp_path), "lode.dev")
    with running(api, settings(tmp_path, nvidia={"runFolder": str(tmp_path / "run")}, **chosen)) as plugin:
        wait_for(lambda: bool(client.sync()))
        assert plugin.metrics.further.keys() == served
