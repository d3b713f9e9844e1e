"""Checks whether the container runtime of a node reads the CDI specs that the plugin writes. Pure.

containerd has CDI on since 2.0; in 1.7 it has to be turned on (``enable_cdi``). Both read specs from ``/etc/cdi`` and
``/var/run/cdi`` unless ``cdi_spec_dirs`` says otherwise, and so does CRI-O, where CDI is always on. A file that is
read later wins: 1.7 takes the whole section of a plugin from it, 2.0 its fields. containerd 2 reads files of all
formats, 1.7 those of formats 1 and 2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cli.doctor.findings import Finding, ok

SPEC_DIRS: Final = ("/etc/cdi", "/var/run/cdi")
CRI, CRI_RUNTIME, CRIO = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "crio.runtime"
"""Sections with the settings of CDI: of containerd's formats 1 and 2, of its format 3, and of CRI-O."""
_SAME: Final = {"/run/": "/var/run/"}
"""``/var/run`` is a link to ``/run``."""
_CHECK: Final = "CDI"


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
            _CHECK,
            "container runtime",
            "neither the socket nor a file of a container runtime was found where distributions have them",
            f"see in its settings that CDI is on and that it reads {cdi_root}; give the node's files with --root",
        )
    for runtime in runtimes:
        faults = [file for file in runtime.files if file.fault]
        for file in faults:
            yield Finding("unknown", _CHECK, file.path, file.fault, "correct the file, or run this as root")
        if not faults:
            yield _checked(runtime, cdi_root)


def _checked(runtime: ContainerRuntime, cdi_root: str) -> Finding:
    """The finding on a runtime whose files could all be read."""
    subject = runtime.files[0].path if runtime.files else runtime.name
    outcomes = {major: _outcome(runtime, major, cdi_root) for major in _majors(runtime)}
    wrong = {major: outcome for major, outcome in outcomes.items() if outcome is not None}
    if not wrong:
        return ok(_CHECK, subject, f"is on, and specs in {cdi_root} are read")
    message, remedy = next(iter(wrong.values()))
    if len(wrong) == len(outcomes):
        return Finding("failed", _CHECK, subject, message, remedy)
    (major,) = wrong
    unsure = f"the version of containerd did not become known; if it is {'1.7' if major == 1 else '2'}: {message}"
    return Finding("warning", _CHECK, subject, unsure, remedy)


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
