"""Boards that were made for other systems find our cards and pods under the names and in the units that they know."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from controller.census import KnownCards, Snapshot, count, peer_exposition
from controller.census.text import PEERS
from controller.quotas import QuotaUse
from driver.quantity import NANO
from kubeletplugin.share_usage import HAMI
from tests.unit.controller.census.fleets import GIB, NAMES, SmallFleet, card, claim, pool
from tests.unit.docs.pages import ROOT, page

PAGE = page("docs/metrics.md").partition("## Names of other systems")[2].partition("\n## ")[0]
OF_THE_LEADER = PAGE.partition("kubeletplugin.peerMetrics")[0]
QUOTAS = (
    QuotaUse("team/small", "lode.dev/memory", 12 * GIB * NANO, 64 * GIB * NANO),
    QuotaUse("team/large", "lode.dev/memory", 12 * GIB * NANO, 80 * GIB * NANO),
    QuotaUse("team/small", "lode.dev/cores.h100", 30 * NANO, 250 * NANO),
    QuotaUse("other/odd", "lode.dev/cores", 0, 10**999),
)
BOARD: Mapping[str, list[str]] = yaml.safe_load((ROOT / "tests/data/monitoring/hami-board.yaml").read_text())


def fleet() -> SmallFleet:
    """A card that is shared, one that is held whole, and one that is free."""
    share = card("gpu-0-share", "gpu-share", index=0)
    found = SmallFleet(pool("n1", [card("gpu-1", index=1), card("gpu-2", index=2), share]))
    found.put(claim("a", "n1", "gpu-0-share", memory="8Gi", cores="25", slots="1", pods=("p", "q")))
    found.put(claim("b", "n1", "gpu-0-share", memory="4Gi", cores="5", slots="1", pods=("p",)))
    found.put(claim("c", "n1", "gpu-1", namespace="other", pods=("r",)))
    return found


def text_of(peer: str, snapshot: Snapshot) -> str:
    return peer_exposition(peer, count(snapshot, KnownCards(NAMES), lambda _: 0.0))


def samples(peer: str) -> Mapping[str, Mapping[Any, float]]:
    """The values of each series, by its labels without their names."""
    found: dict[str, dict[Any, float]] = {}
    text = text_of(peer, fleet().snapshot(quotas=QUOTAS))
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            of_name = found.setdefault(sample.name, {})
            assert tuple(sample.labels.values()) not in of_name
            of_name[tuple(sample.labels.values())] = sample.value
    return found


def test_volcano_counts_mib_and_percent() -> None:
    found = samples("volcano")
    shared, whole, free = (("n1", f"uuid-gpu-{number}") for number in range(3))
    assert found["volcano_vgpu_device_memory_limit"] == dict.fromkeys((whole, free, shared), 80 * 1024)
    assert found["volcano_vgpu_device_allocated_memory"] == {shared: 12 * 1024, whole: 80 * 1024, free: 0}
    assert found["volcano_vgpu_device_allocated_cores"] == {shared: 30, whole: 100, free: 0}
    assert found["volcano_vgpu_device_shared_number"] == {shared: 2, whole: 1, free: 0}
    assert found["volcano_vgpu_device_memory_allocation_for_a_certain_pod"] == {
        (*shared, "p", "team"): 12 * 1024,
        (*shared, "q", "team"): 8 * 1024,
        (*whole, "r", "other"): 80 * 1024,
    }
    assert found["volcano_vgpu_device_core_allocation_for_a_certain_pod"][*shared, "p", "team"] == 30


def test_hami_counts_bytes_and_percent_of_a_cards_compute() -> None:
    found = samples("hami")
    shared, whole = ("n1", "uuid-gpu-0", "0", "h100"), ("n1", "uuid-gpu-1", "1", "h100")
    assert found["hami_gpu_memory_limit_bytes"][shared] == 80 * GIB
    assert found["hami_gpu_memory_allocated_bytes"][*shared, "30"] == 12 * GIB
    assert found["hami_gpu_core_limit_ratio"][whole] == 100
    assert found["hami_gpu_core_allocated_ratio"][shared] == 30
    assert found["hami_gpu_shared_count"][shared] == 2
    assert found["hami_node_gpu_memory_allocated_ratio"][shared[:3]] == 0.15
    assert found["hami_node_gpu_overview"][*shared, "30", str(80 * 1024)] == 12 * GIB
    pod = ("team", "n1", "p", "uuid-gpu-0")
    assert found["hami_vgpu_memory_allocated_bytes"][pod] == found["hami_vgpu_memory_limit_bytes"][pod] == 12 * GIB
    assert found["hami_vgpu_core_allocated_ratio"][pod] == 30


def test_of_the_quotas_of_a_namespace_hami_is_told_the_lowest_limit_in_mib_and_percent() -> None:
    found = samples("hami")
    memory, cores, odd = ("team", "lode.dev/memory"), ("team", "lode.dev/cores.h100"), ("other", "lode.dev/cores")
    limits = found["hami_resource_quota_limit"]
    assert limits == {memory: 64 * 1024, cores: 250, odd: pytest.approx(2**63)}
    assert found["hami_resource_quota_used"][*memory, "65536"] == 12 * 1024
    assert found["hami_resource_quota_used"][*cores, "250"] == 30


@pytest.mark.parametrize("peer", PEERS)
def test_every_name_is_served_with_help_and_is_listed(peer: str) -> None:
    assert samples(peer).keys() == PEERS[peer].keys()
    text = text_of(peer, fleet().snapshot(quotas=QUOTAS))
    for name, said in PEERS[peer].items():
        assert f"# HELP {name} {said}\n# TYPE {name} gauge\n" in text
    listed = re.findall(rf"^\| `({peer}_\w+)` \|", OF_THE_LEADER, re.MULTILINE)
    assert sorted(listed) == sorted(PEERS[peer])


def test_what_hamis_board_asks_for_is_served_or_listed_with_the_reason() -> None:
    asked = {name for query in BOARD["answered"] for name in re.findall(r"hami_\w+", query)}
    measured = {name for query in BOARD["measured"] for name in re.findall(r"hami_\w+", query)}
    assert asked <= PEERS["hami"].keys()
    assert measured <= HAMI.keys()
    assert not set(BOARD["monitor"]) & PEERS["hami"].keys()
    refused = re.findall(r"^\| `(hami_\w+)` \|", PAGE.partition("is not served")[2], re.MULTILINE)
    assert sorted(refused) == sorted(BOARD["monitor"])


def test_an_empty_fleet_has_no_series() -> None:
    assert text_of("hami", SmallFleet().snapshot()) == ""
