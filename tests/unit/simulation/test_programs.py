"""The programs of a simulated cluster, where no thread can wait for another."""

import pytest

from driver.kube.api import PODS
from driver.kube.objects import pod_phase
from simulation.kubernetes.dra_plugin import ClaimName, PluginDown
from tests.simulation.programs import PluginConnection, SimulatedPlugin
from tests.system.objects import NAMESPACE
from tests.system.scenario import Scenario


def plugin_of(scenario: Scenario) -> SimulatedPlugin:
    found = scenario.cluster.plugin("n1")
    assert found is not None
    return found


def test_nothing_is_released_while_claims_are_prepared() -> None:
    plugin = plugin_of(Scenario())
    plugin.preparer.retiring.hasten()
    with plugin.working():
        assert not plugin.step()
    assert plugin.step()


def test_no_claim_is_prepared_or_unprepared_while_others_are_released() -> None:
    plugin = plugin_of(Scenario())
    connection, claims = PluginConnection(lambda: plugin), [ClaimName(NAMESPACE, "c", "u")]
    with plugin.working():
        for call in (connection.prepare, connection.unprepare):
            with pytest.raises(PluginDown, match="did not answer in time"):
                call(claims)


def test_a_kubelet_that_met_a_busy_plugin_starts_the_pod_later() -> None:
    scenario = Scenario()
    scenario.create("first", "gpu-1")
    with plugin_of(scenario).working():
        scenario.cluster.run(500)
        assert pod_phase(scenario.cluster.user.get(PODS, "first", NAMESPACE)) == "Pending"
    scenario.settle()
    assert scenario.running("first")
