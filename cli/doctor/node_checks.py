"""Checks whether a node has what the kubelet plugin needs. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cli.doctor.bridge_checks import ObservedBridge, check_bridge
from cli.doctor.findings import Finding, Status, ok
from cli.doctor.runtime_checks import ContainerRuntime, check_runtimes
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of

FolderState = Literal["present", "missing", "no folder", "not writable"]


@dataclass(frozen=True, slots=True)
class PluginSocket:
    """A socket in the kubelet's folder of plugins."""

    path: str
    driver: str
    """"" if nothing answered."""
    endpoint: str = ""
    endpoint_listens: bool = False


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """Facts seen on a node. Paths are those of the node."""

    driver: str
    hardware: str
    """The setting ``kubeletplugin.hardware``."""
    cdi_root: str
    folders: Mapping[str, FolderState]
    boot_id: bool
    registrations: tuple[PluginSocket, ...]
    device_plugins: tuple[str, ...]
    """Names of the sockets of device plugins."""
    runtimes: tuple[ContainerRuntime, ...]
    cards: Mapping[Vendor, int]
    """Accelerators on the PCI bus."""
    device_files: frozenset[str]
    """Names in ``device_folders``."""
    libraries: frozenset[str]
    """Libraries of ``VendorFacts.library`` that are installed below the driver's root."""
    device_folders: tuple[str, ...] = ("/dev",)
    """``/dev``, and that of a driver container."""
    hook_lacks: tuple[str, ...] = ()
    """Programs of the host that the hook of NVIDIA's cards needs and that are not there."""
    bridge: ObservedBridge | None = None
    """None where the settings serve no device plugins."""


def check_node(facts: ObservedNode) -> tuple[Finding, ...]:
    """All findings, in the order in which a node is set up."""
    return (
        *_hardware(facts),
        *_hook(facts),
        *_folders(facts),
        _boot_id(facts),
        *check_runtimes(facts.runtimes, facts.cdi_root),
        *_registrations(facts),
        *_device_plugins(facts),
        *check_bridge(facts.bridge),
    )


def _hardware(facts: ObservedNode) -> Iterator[Finding]:
    serious: Status = "warning" if facts.hardware == "simulated" else "failed"
    if not any(facts.cards.values()):
        companies = " or ".join(facts_of(vendor).company for vendor in EVERY_VENDOR)
        yield ok("cards", "PCI bus", f"no accelerator of {companies}")
    for vendor, count in facts.cards.items():
        needs = facts_of(vendor)
        if not count:
            continue
        yield ok("cards", "PCI bus", f"{count} of {needs.brand}")
        if needs.library in facts.libraries:
            yield ok("driver", needs.brand, f"{needs.library} is installed")
        else:
            remedy = (
                f"{needs.remedy}; if it is installed elsewhere, give its root with --driver-root, and the folders of "
                "its libraries with --settings"
            )
            yield Finding(serious, "driver", needs.brand, f"{needs.library} was not found", remedy)
        missing = [name for name in needs.device_files if name not in facts.device_files]
        numbers = [
            name.removeprefix(needs.card_file) for name in facts.device_files if name.startswith(needs.card_file)
        ]
        known = sum(number.isdecimal() for number in numbers)
        where = " and ".join(facts.device_folders)
        remedy = f"{needs.remedy}; if the driver is in a container, give the folder of that with --driver-root"
        if missing:
            yield Finding(serious, "device nodes", needs.brand, f"missing in {where}: {', '.join(missing)}", remedy)
        elif known < count:
            message = f"{known} of {count} cards are in {where} ({needs.card_file}0 and so on)"
            yield Finding(serious, "device nodes", needs.brand, message, remedy)
        else:
            yield ok("device nodes", needs.brand, f"all {count} cards are in {where}")


def _hook(facts: ObservedNode) -> Iterator[Finding]:
    if not facts.cards.get("nvidia"):
        return
    if facts.hook_lacks:
        message = f"the host has no {', '.join(facts.hook_lacks)}: no container with a card would start"
        remedy = (
            "set kubeletplugin.nvidia.linker to environment, or nvidiaCtk to the path of NVIDIA's nvidia-ctk, and give "
            "the settings with --settings"
        )
        serious: Status = "warning" if facts.hardware == "simulated" else "failed"
        yield Finding(serious, "hook", facts_of("nvidia").brand, message, remedy)
    else:
        yield ok("hook", facts_of("nvidia").brand, "what tells the linker of the driver's libraries can run")


_FOLDERS: Final[Mapping[FolderState, tuple[str, str]]] = {
    "missing": (
        "does not exist",
        "start the kubelet and the plugin, which create it; or correct kubeletplugin.kubeletRoot and cdiRoot",
    ),
    "no folder": ("is not a folder", "remove what has this name"),
    "not writable": ("cannot be written", "run this as root; mount the file system writable"),
}


def _folders(facts: ObservedNode) -> Iterator[Finding]:
    for path, state in facts.folders.items():
        if state == "present":
            yield ok("folder", path, "is there, and can be written")
        else:
            yield Finding("failed", "folder", path, *_FOLDERS[state])


def _boot_id(facts: ObservedNode) -> Finding:
    if facts.boot_id:
        return ok("boot id", "kernel", "can be read")
    return Finding(
        "failed",
        "boot id",
        "kernel",
        "cannot be read",
        "set kubeletplugin.bootIdFile to a file that changes when the machine starts",
    )


def _registrations(facts: ObservedNode) -> Iterator[Finding]:
    check = "registration"
    ours = [item for item in facts.registrations if item.driver == facts.driver]
    for item in facts.registrations:
        if not item.driver:
            remedy = "the plugin removes dead sockets of its own when it starts; see that the pod of this driver runs"
            yield Finding("warning", check, item.path, "nothing answers at this socket", remedy)
    for item in ours:
        if item.endpoint_listens:
            yield ok(check, item.path, f"the kubelet finds {item.driver} at {item.endpoint}")
        else:
            remedy = "delete the plugin's pod on this node, so that it starts again"
            yield Finding("failed", check, item.path, f"nothing listens at {item.endpoint}", remedy)
    if not ours:
        remedy = "see that the pod of the DaemonSet lode-kubeletplugin runs on this node, and its log"
        yield Finding("failed", check, facts.driver, "no plugin of this driver has a socket for the kubelet", remedy)


def _device_plugins(facts: ObservedNode) -> Iterator[Finding]:
    vendors = [facts_of(vendor) for vendor in EVERY_VENDOR]
    words = [word for vendor in vendors for word in vendor.device_plugins]
    rivals = {name for name in facts.device_plugins if any(word in name.lower() for word in words)}
    for name in sorted(rivals):
        remedy = "remove that device plugin from this node before its cards are managed here, or exclude the node"
        yield Finding("warning", "other drivers", name, "a device plugin also hands out these cards", remedy)
    known = [driver for vendor in vendors for driver in (*vendor.card_drivers, *vendor.companion_drivers)]
    for item in facts.registrations:
        if item.driver in known:
            remedy = "let only one driver serve the cards of a node: remove that DRA driver here, or exclude the node"
            yield Finding("warning", "other drivers", item.driver, "another DRA driver is registered", remedy)
    if not rivals and not any(item.driver in known for item in facts.registrations):
        yield ok("other drivers", "kubelet", "no other driver of these cards is registered")
