"""Metrics that other metrics can be joined with: which card a prepared claim is on, where an operator wants that."""

from driver.observe import Metrics
from driver.settings import Settings
from kubeletplugin.prepare import Preparer
from tests.unit.kubeletplugin.plugin_node import SHARE_A, PluginNode, prepare, result, share, unprepare


def plugin(rig: PluginNode, *, named: bool) -> tuple[Preparer, Metrics]:
    rig.settings = Settings.model_validate({"kubeletplugin": {"claimMetrics": named}})
    metrics = Metrics()
    return Preparer(rig.context(), metrics), metrics


def shown(metrics: Metrics) -> list[tuple[str, ...]]:
    return sorted(
        tuple(sample.labels[name] for name in ("claim_namespace", "claim", "device", "uuid"))
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "lode_claim_device_info"
    )


def test_each_device_of_a_prepared_claim_has_the_uuid_of_its_card() -> None:
    rig = PluginNode()
    preparer, metrics = plugin(rig, named=True)
    uuids = [card.uuid for card in rig.hardware.cards()]
    two = rig.claim("two", [result("gpu-1"), result("gpu-2", "other")])
    part = rig.claim("part", [share("gpu-0-share", SHARE_A)])
    prepare(preparer, two)
    prepare(preparer, part)
    assert shown(metrics) == [
        ("team", "part", "gpu-0-share", uuids[0]),
        ("team", "two", "gpu-1", uuids[1]),
        ("team", "two", "gpu-2", uuids[2]),
    ]
    unprepare(preparer, two)
    assert shown(metrics) == [("team", "part", "gpu-0-share", uuids[0])]


def test_a_restart_shows_what_is_prepared() -> None:
    rig = PluginNode()
    before, _ = plugin(rig, named=True)
    prepare(before, rig.claim("c", [result("gpu-1")]))
    after, metrics = plugin(rig, named=True)
    after.tidy()
    assert [labels[1:3] for labels in shown(metrics)] == [("c", "gpu-1")]


def test_names_of_claims_are_shown_only_where_that_is_set() -> None:
    rig = PluginNode()
    preparer, metrics = plugin(rig, named=False)
    prepare(preparer, rig.claim("c", [result("gpu-1")]))
    assert shown(metrics) == []
    assert metrics.registry.get_sample_value("lode_prepared_claims") == 1
