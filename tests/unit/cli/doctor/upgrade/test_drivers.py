"""Drivers that the kubelet of 1.38 does not register are found on a node."""

import pytest

from cli.doctor.node_checks import PluginSocket
from cli.doctor.upgrade.program_rules import check_registrations
from driver.limits import MAX_SOCKET_PATH

ENDPOINT = "/var/lib/kubelet/plugins/gpu.example/dra.sock"


def statuses(driver: str, endpoint: str) -> list[str]:
    socket = PluginSocket("/var/lib/kubelet/plugins_registry/a-reg.sock", driver, endpoint, True)
    return [finding.status for finding in check_registrations([socket])]


@pytest.mark.parametrize(
    "endpoint", [ENDPOINT, "/a b", "/" + "x" * (MAX_SOCKET_PATH - 1), "/" + "é" * ((MAX_SOCKET_PATH - 1) // 2)]
)
def test_an_absolute_plain_path_is_registered(endpoint: str) -> None:
    assert statuses("gpu.example", endpoint) == ["ok"]


@pytest.mark.parametrize(
    "endpoint",
    ["plugins/dra.sock", "./dra.sock", "", "/" + "x" * MAX_SOCKET_PATH, "/" + "é" * 54, "/a%20b", "/a?b", "/a#b"],
)
def test_another_path_is_not(endpoint: str) -> None:
    assert statuses("gpu.example", endpoint) == ["failed"]


@pytest.mark.parametrize(("name", "status"), [("GPU.example", "ok"), ("gpu_0", "failed"), ("g" * 64, "failed")])
def test_the_name_is_that_of_a_driver(name: str, status: str) -> None:
    assert statuses(name, ENDPOINT) == [status]


def test_each_fault_is_named_with_a_remedy() -> None:
    socket = PluginSocket("/var/lib/kubelet/plugins_registry/a-reg.sock", "gpu_0", "dra.sock", True)
    name, endpoint = sorted(check_registrations([socket]), key=lambda finding: finding.message)
    assert name.message == "'gpu_0' is no name of a driver: the kubelet of 1.38 does not register it"
    assert endpoint.message.startswith("its endpoint 'dra.sock' is no absolute path")
    assert "a-reg.sock" in name.remedy


def test_what_does_not_answer_is_left_out() -> None:
    assert statuses("", "") == []
