"""Checks whether a node has what the kubelet plugin needs: folders, cards, device plugins, a runtime with CDI. Pure.

containerd has CDI on since 2.0; in 1.7 it has to be turned on (``enable_cdi``). Both read specs from ``/etc/cdi`` and
``/var/run/cdi`` unless ``cdi_spec_dirs`` says otherwise, and so does CRI-O, where CDI is always on. A file that is
read later wins: 1.7 takes the whole section of a plugin from it, 2.0 its fields. containerd 2 reads files of all
formats, 1.7 those of formats 1 and 2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from cli.doctor.findings import Finding, Status, ok
from driver.limits import bounded
from kubeletplugin.hardware.vendors import EVERY_VENDOR, Vendor, facts_of

_DEVICE_PLUGINS: Final = "device plugins"
_MOVE: Final = "have its DaemonSet mount the folder {} of the host (docs/deviceplugins.md, move a device plugin)"


@dataclass(frozen=True, slots=True)
class UnfitPattern:
    """A pattern of the settings that says nothing about any device of its resource."""

    pattern: str
    ids: int
    example: str


@dataclass(frozen=True, slots=True)
class ObservedBridge:
    """Facts about device plugins, on a node where the settings serve them."""

    folder: str
    serves: bool
    """Whether somebody listens at ``kubelet.sock`` there."""
    plugins: tuple[str, ...] = ()
    """Sockets of device plugins in the folder."""
    at_kubelet: tuple[str, ...] = ()
    """Sockets of device plugins in the kubelet's folder."""
    unfit: Mapping[str, UnfitPattern] = field(default_factory=dict)
    """By resource."""
    empty: tuple[str, ...] = ()
    """Resources that a device plugin has registered, and of which no device is known."""
    unregistered: tuple[str, ...] = ()
    """Resources that have settings, and that no device plugin has registered since the boot."""


def check_bridge(facts: ObservedBridge | None) -> Iterator[Finding]:
    """All findings; none where the settings serve no device plugins."""
    if facts is None:
        return
    if not facts.serves:
        remedy = "see that the pod of the DaemonSet lode-kubeletplugin runs on this node, and its log"
        yield Finding("failed", _DEVICE_PLUGINS, facts.folder, "nobody listens at kubelet.sock", remedy)
    elif not facts.plugins:
        yield Finding("warning", _DEVICE_PLUGINS, facts.folder, "no device plugin uses it", _MOVE.format(facts.folder))
    else:
        yield ok(_DEVICE_PLUGINS, facts.folder, f"{len(facts.plugins)} in use: {', '.join(facts.plugins)}")
    for name in facts.at_kubelet:
        message = "has registered with the kubelet, not with Lode"
        yield Finding(
            "warning", _DEVICE_PLUGINS, name, message, f"{_MOVE.format(facts.folder)}, unless the kubelet is to have it"
        )
    for resource, unfit in facts.unfit.items():
        message = f"idPattern {unfit.pattern} fits none of its {unfit.ids} IDs, such as {unfit.example}"
        yield Finding(
            "warning",
            _DEVICE_PLUGINS,
            resource,
            message,
            "correct kubeletplugin.deviceplugin.resources of the settings",
        )
    for resource in facts.empty:
        message = "is registered, and its device plugin has listed no device"
        yield Finding("warning", _DEVICE_PLUGINS, resource, message, "see the log of its device plugin, and its driver")
    for resource in facts.unregistered:
        remedy = "correct its name in kubeletplugin.deviceplugin.resources, or see the log of its device plugin"
        yield Finding(
            "warning", _DEVICE_PLUGINS, resource, "has settings, and no device plugin has registered it", remedy
        )


SPEC_DIRS: Final = ("/etc/cdi", "/var/run/cdi")
CRI, CRI_RUNTIME, CRIO = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "crio.runtime"
"""Sections with the settings of CDI: of containerd's formats 1 and 2, of its format 3, and of CRI-O."""
_SAME: Final = {"/run/": "/var/run/"}
"""``/var/run`` is a link to ``/run``."""
_CDI: Final = "CDI"


@dataclass(frozen=True, slots=True)
class CdiSettings:
    """What a section says of CDI; fields that it does not set are None."""

    enabled: bool | None = None
    folders: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class RuntimeFile:
    """A file with settings of a container runtime."""

    path: str
    format: int = 0
    """containerd's ``version``: 3 since containerd 2.0; 0 if the file does not say it."""
    sections: Mapping[str, CdiSettings] = field(default_factory=dict)
    """By the names above; those that the file does not have are left out."""
    is_without_cri: bool = False
    """Whether it says that this containerd serves no kubelet, as Docker's does."""
    fault: str = ""
    """The reason why the file could not be read; "" if it could."""


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """A container runtime of the node."""

    name: str
    """``containerd``, or what brings a containerd along."""
    files: tuple[RuntimeFile, ...]
    """Its settings, in the order in which it reads them; () if it has none, so that all have their defaults."""
    version: str = ""
    """As it says itself; "" if it did not answer."""
    change: str = ""
    """Where its settings are to be changed, for people."""
    is_crio: bool = False


def check_runtimes(runtimes: Sequence[ContainerRuntime], cdi_root: str) -> Iterator[Finding]:
    """What is found of each runtime. What cannot be known is ``unknown``.

    Args:
        cdi_root: where the plugin writes CDI specs.
    """
    if not runtimes:
        yield Finding(
            "unknown",
            _CDI,
            "container runtime",
            "neither the socket nor a file of a container runtime was found where distributions have them",
            f"see in its settings that CDI is on and that it reads {cdi_root}; give the node's files with --root",
        )
    for runtime in runtimes:
        faults = [file for file in runtime.files if file.fault]
        for file in faults:
            yield Finding("unknown", _CDI, file.path, file.fault, "correct the file, or run this as root")
        if not faults:
            yield _checked(runtime, cdi_root)


def _checked(runtime: ContainerRuntime, cdi_root: str) -> Finding:
    """The finding on a runtime whose files could all be read."""
    subject = runtime.files[0].path if runtime.files else runtime.name
    outcomes = {major: _outcome(runtime, major, cdi_root) for major in _majors(runtime)}
    wrong = {major: outcome for major, outcome in outcomes.items() if outcome is not None}
    if not wrong:
        return ok(_CDI, subject, f"is on, and specs in {cdi_root} are read")
    message, remedy = next(iter(wrong.values()))
    if len(wrong) == len(outcomes):
        return Finding("failed", _CDI, subject, message, remedy)
    (major,) = wrong
    unsure = f"the version of containerd did not become known; if it is {'1.7' if major == 1 else '2'}: {message}"
    return Finding("warning", _CDI, subject, unsure, remedy)


def _majors(runtime: ContainerRuntime) -> tuple[int, ...]:
    """The major versions that the runtime may have."""
    said = runtime.version.removeprefix("v").partition(".")[0]
    if said.isdecimal():
        return (1,) if int(said) < 2 else (2,)
    if runtime.is_crio or any(file.format >= 3 or CRI_RUNTIME in file.sections for file in runtime.files):
        return (2,)
    return (1, 2)


def _outcome(runtime: ContainerRuntime, major: int, cdi_root: str) -> tuple[str, str] | None:
    """What is wrong in a runtime of this version, and the remedy; None if nothing is."""
    found = _settings(runtime.files, major)
    enabled = major >= 2 if found.enabled is None else found.enabled
    where = f" in {runtime.change}" if runtime.change else ""
    if not enabled and not runtime.is_crio:
        cause = "is not set, and containerd 1.7 needs it" if found.enabled is None else "is false"
        section = CRI if major < 2 else CRI_RUNTIME
        remedy = f'set enable_cdi = true in [plugins."{section}"]{where}, and restart containerd'
        return f"enable_cdi {cause}: containers would start without devices", remedy
    folders = {_canonical(folder) for folder in (SPEC_DIRS if found.folders is None else found.folders)}
    if _canonical(cdi_root) not in folders:
        read = ", ".join(sorted(folders)) or "no folder"
        message = f"the runtime reads CDI specs in {read}, and the plugin writes {cdi_root}"
        instead = "set kubeletplugin.cdiRoot to one of these, or add" if folders else "add"
        return message, f"{instead} {cdi_root} to cdi_spec_dirs{where}"
    return None


def _settings(files: Sequence[RuntimeFile], major: int) -> CdiSettings:
    found = CdiSettings()
    for file in files:
        names = (CRI,) if major < 2 else (CRI, CRI_RUNTIME, CRIO)
        for section in (file.sections[name] for name in names if name in file.sections):
            if major < 2:
                found = section
            else:
                found = CdiSettings(
                    found.enabled if section.enabled is None else section.enabled,
                    found.folders if section.folders is None else section.folders,
                )
    return found


def _canonical(folder: str) -> str:
    path = folder.rstrip("/") + "/"
    for link, target in _SAME.items():
        if path.startswith(link):
            path = target + path.removeprefix(link)
    return path.rstrip("/")


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
    unseen: tuple[str, ...] = ()
    """Why files of the driver or the host could not be looked at. They may be there."""


def check_node(facts: ObservedNode) -> tuple[Finding, ...]:
    """All findings, in the order in which a node is set up."""
    return (
        *_unseen(facts),
        *_hardware(facts),
        *_hook(facts),
        *_folders(facts),
        _boot_id(facts),
        *check_runtimes(facts.runtimes, facts.cdi_root),
        *_registrations(facts),
        *_device_plugins(facts),
        *check_bridge(facts.bridge),
    )


def _unseen(facts: ObservedNode) -> Iterator[Finding]:
    remedy = "run this as root, and see in the kernel's log whether the file system has errors; the plugin waits for it"
    for why in facts.unseen:
        yield Finding("unknown", "files", "the node", bounded(why), remedy)


def _hardware(facts: ObservedNode) -> Iterator[Finding]:
    serious: Status = "warning" if facts.hardware == "simulated" else "failed"
    if not any(facts.cards.values()) and not facts.unseen:
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
