"""A node that has what the plugin needs passes; everything that is missing is found, with its remedy."""

from dataclasses import replace
from typing import Any

import pytest

from cli.doctor import findings
from cli.doctor.findings import Finding
from cli.doctor.node_checks import ContainerRuntime, ObservedNode, PluginSocket, check_node
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of

SOCKET = PluginSocket(
    "/var/lib/kubelet/plugins_registry/lode.dev-reg.sock", "lode.dev", "/var/lib/kubelet/p.sock", True
)
PREPARED = ObservedNode(
    driver="lode.dev",
    hardware="auto",
    cdi_root="/var/run/cdi",
    folders={"/var/run/cdi": "present", "/var/lib/kubelet/plugins_registry": "present"},
    boot_id=True,
    registrations=(SOCKET,),
    device_plugins=("kubelet.sock",),
    runtimes=(ContainerRuntime("containerd", (), "2.1.0"),),
    cards={"nvidia": 2, "huawei": 0},
    device_files=frozenset({"nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"}),
    libraries=frozenset({"libnvidia-ml.so.1"}),
)
ASCEND: dict[str, Any] = {
    "cards": {"nvidia": 0, "huawei": 1},
    "device_files": frozenset({"davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"}),
    "libraries": frozenset({"libdcmi.so"}),
}


def wrong(facts: ObservedNode) -> list[tuple[str, str, str]]:
    """What is not ok: status, check, message."""
    return [(found.status, found.check, found.message) for found in check_node(facts) if found.status != "ok"]


@pytest.mark.parametrize(
    "change",
    [
        {},
        ASCEND,
        {"cards": {}, "device_files": frozenset(), "libraries": frozenset()},
        {"device_plugins": ("kubelet.sock", "kvm.sock")},
    ],
)
def test_a_node_that_has_everything_passes(change: dict[str, Any]) -> None:
    found = check_node(replace(PREPARED, **change))
    assert wrong(replace(PREPARED, **change)) == []
    assert findings.passed(found)
    assert not any(item.remedy for item in found)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"libraries": frozenset()}, ("failed", "driver", "libnvidia-ml.so.1 was not found")),
        (
            {"device_files": frozenset({"nvidia0", "nvidia1"})},
            ("failed", "device nodes", "missing in /dev: nvidiactl, nvidia-uvm"),
        ),
        (
            {"device_files": frozenset({"nvidiactl", "nvidia-uvm", "nvidia0"})},
            ("failed", "device nodes", "1 of 2 cards are in /dev (nvidia0 and so on)"),
        ),
        (
            {**ASCEND, "device_files": frozenset({"davinci_manager", "devmm_svm", "davinci0"})},
            ("failed", "device nodes", "missing in /dev: hisi_hdc"),
        ),
        ({**ASCEND, "libraries": frozenset()}, ("failed", "driver", "libdcmi.so was not found")),
        (
            {"hook_lacks": ("/bin/sh", "tr")},
            ("failed", "hook", "the host has no /bin/sh, tr: no container with a card would start"),
        ),
        ({"hardware": "simulated", "libraries": frozenset()}, ("warning", "driver", "libnvidia-ml.so.1 was not found")),
        ({"folders": {"/var/run/cdi": "missing"}}, ("failed", "folder", "does not exist")),
        ({"folders": {"/var/run/cdi": "no folder"}}, ("failed", "folder", "is not a folder")),
        ({"folders": {"/var/run/cdi": "not writable"}}, ("failed", "folder", "cannot be written")),
        ({"boot_id": False}, ("failed", "boot id", "cannot be read")),
        (
            {"runtimes": (ContainerRuntime("containerd", (), "1.7.27"),)},
            (
                "failed",
                "CDI",
                "enable_cdi is not set, and containerd 1.7 needs it: containers would start without devices",
            ),
        ),
        ({"registrations": ()}, ("failed", "registration", "no plugin of this driver has a socket for the kubelet")),
        (
            {"registrations": (replace(SOCKET, endpoint_listens=False),)},
            ("failed", "registration", "nothing listens at /var/lib/kubelet/p.sock"),
        ),
        (
            {"registrations": (SOCKET, PluginSocket("/r/x.sock", ""))},
            ("warning", "registration", "nothing answers at this socket"),
        ),
        (
            {"registrations": (SOCKET, PluginSocket("/r/x.sock", "gpu.nvidia.com", "/x", True))},
            ("warning", "other drivers", "another DRA driver is registered"),
        ),
        (
            {"device_plugins": ("kubelet.sock", "nvidia-gpu.sock")},
            ("warning", "other drivers", "a device plugin also hands out these cards"),
        ),
        (
            {"device_plugins": ("Ascend910.sock",)},
            ("warning", "other drivers", "a device plugin also hands out these cards"),
        ),
    ],
)
def test_what_is_wrong_is_found_and_has_a_remedy(change: dict[str, Any], expected: tuple[str, str, str]) -> None:
    facts = replace(PREPARED, **change)
    assert wrong(facts) == [expected]
    assert all(found.remedy for found in check_node(facts) if found.status != "ok")
    assert findings.passed(check_node(facts)) == (expected[0] == "warning")


@pytest.mark.parametrize("vendor", EVERY_VENDOR)
def test_every_vendor_has_its_needs(vendor: Vendor) -> None:
    facts = replace(PREPARED, cards={vendor: 1}, device_files=frozenset(), libraries=frozenset())
    checked = {(check, message) for _, check, message in wrong(facts)}
    assert ("driver", f"{facts_of(vendor).library} was not found") in checked
    assert ("device nodes", f"missing in /dev: {', '.join(facts_of(vendor).device_files)}") in checked


def test_findings_are_a_table_with_the_remedies_below() -> None:
    found = (
        Finding("ok", "CDI", "containerd", "is on"),
        Finding("failed", "folder", "/x", "does not exist", "make it"),
    )
    assert findings.text(found).splitlines() == [
        "STATUS   CHECK    SUBJECT      FOUND",
        "ok       CDI      containerd   is on",
        "failed   folder   /x           does not exist",
        "folder, /x: make it",
    ]
    assert findings.to_json(found)["passed"] is False
    assert findings.to_json(found)["findings"][1] == {
        "status": "failed",
        "check": "folder",
        "subject": "/x",
        "message": "does not exist",
        "remedy": "make it",
    }
