from driver.kube.api import PODS
from kubeletplugin.prepare.claim_usage import pods_that_forbid_unprepare
from tests.unit.kubeletplugin.plugin_node import NODE, PluginNode, result


def test_running_pods_forbid_it_but_not_those_that_are_being_deleted() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    one, two = rig.pod("one"), rig.pod("two")
    rig.reserve(ref, [one, two])
    assert pods_that_forbid_unprepare(rig.api, ref, NODE) == ("one", "two")
    rig.api.delete(PODS, "two", "team", grace_period_seconds=30)
    assert pods_that_forbid_unprepare(rig.api, ref, NODE) == ("one",)
    rig.api.delete(PODS, "one", "team", grace_period_seconds=30)
    assert pods_that_forbid_unprepare(rig.api, ref, NODE) == ()


def test_pods_of_another_node_forbid_nothing() -> None:
    rig = PluginNode()
    ref = rig.claim("c", [result("gpu-0")])
    rig.reserve(ref, [rig.pod("one"), rig.pod("two")])
    assert pods_that_forbid_unprepare(rig.api, ref, "node-b") == ()
