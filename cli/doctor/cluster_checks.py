"""Whether a cluster has what Lode needs, and pods of other systems are adopted as it is meant. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cli.doctor.allocated import AllocatedDriver, check_allocated
from cli.doctor.findings import SHOWN, Finding, ok, some
from cli.doctor.rivals import TwiceOffered, check_twice
from driver.adoption import NAMESPACE_LABEL, SOURCES
from driver.names import NVIDIA_DRA_DRIVER

_ADOPTION: Final = "adoption"


@dataclass(frozen=True, slots=True)
class NamespaceLabels:
    """What a namespace says of adoption.

    Attributes:
        asked: the sources whose label is ``on``, known or not.
        adopted: the sources whose policy applies to the namespace.
    """

    name: str
    asked: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OldLimit:
    """A ResourceQuota or LimitRange of an adopted namespace that limits a resource of another system.

    Attributes:
        key: ``namespace/name``.
    """

    key: str
    resource: str


@dataclass(frozen=True, slots=True)
class Migration:
    """What there is of other systems in a cluster.

    Attributes:
        installed: sources that have their policy.
        old_pods: pods with a source's resources in namespaces where it is adopted, as namespace/name, by source.
        ranges: LimitRanges that say the least or the most of a resource.
        class_names: the names of device plugins that DeviceClasses have (``extendedResourceName``).
        astray: pods of adopted namespaces that have no node, by the label that they want of one and no node has.
    """

    installed: tuple[str, ...] = ()
    namespaces: tuple[NamespaceLabels, ...] = ()
    old_pods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quotas: tuple[OldLimit, ...] = ()
    ranges: tuple[OldLimit, ...] = ()
    class_names: frozenset[str] = frozenset()
    astray: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def check_migration(facts: Migration) -> Iterator[Finding]:
    """All findings; none where nobody is adopted."""
    wrong = (*_labels(facts), *_old_pods(facts), *_quotas(facts), *_selectors(facts))
    yield from wrong
    adopted = [namespace for namespace in facts.namespaces if namespace.adopted]
    if adopted and not wrong:
        sources = sorted({source for namespace in adopted for source in namespace.adopted})
        yield ok(_ADOPTION, f"{len(adopted)} namespaces", f"pods of {', '.join(sources)} get claims")


def _labels(facts: Migration) -> Iterator[Finding]:
    unknown: dict[str, list[str]] = {}
    without: dict[str, list[str]] = {}
    both = []
    for namespace in facts.namespaces:
        for source in namespace.asked:
            if source not in SOURCES:
                unknown.setdefault(source, []).append(namespace.name)
            elif source not in facts.installed:
                without.setdefault(source, []).append(namespace.name)
        if {"nvidia", "hami"} <= {*namespace.asked}:
            both.append(namespace.name)
    for source, names in unknown.items():
        message = f"have the label {NAMESPACE_LABEL}{source}, and there is no such system"
        yield Finding("warning", _ADOPTION, some(names), message, f"use one of {', '.join(SOURCES)}")
    for source, names in without.items():
        remedy = f"apply manifests/adopt/{source} (chart: adopt.sources), or remove the label"
        yield Finding(
            "failed", _ADOPTION, some(names), f"have {NAMESPACE_LABEL}{source}=on, and no policy adopts pods", remedy
        )
    if both:
        message = "have the labels of nvidia and of hami, which read nvidia.com/gpu differently: their pods are refused"
        remedy = f"remove {NAMESPACE_LABEL}nvidia where pods were written for HAMi, and {NAMESPACE_LABEL}hami elsewhere"
        yield Finding("failed", _ADOPTION, some(both), message, remedy)


def _old_pods(facts: Migration) -> Iterator[Finding]:
    for source, pods in facts.old_pods.items():
        message = f"ask for resources of {source}: they are older than the adoption of their namespace"
        remedy = (
            "those that run keep their cards of the device plugin; restart their workloads before it is removed, and "
            "those that wait now"
        )
        yield Finding("warning", _ADOPTION, some(pods), message, remedy)


def _quotas(facts: Migration) -> Iterator[Finding]:
    for quota in facts.quotas:
        if quota.resource not in facts.class_names:
            message = f"limits {quota.resource}, which no pod asks for any more: it counts nothing"
            remedy = (
                "limit claims by memory, cores or devices (docs/quotas.md); a name for whole cards goes on counting as "
                "extendedResourceName of gpu.lode.dev or npu.lode.dev"
            )
            yield Finding("warning", "quotas", f"ResourceQuota {quota.key}", message, remedy)
    for limit in facts.ranges:
        message = f"has a min or max of {limit.resource}, which no adopted pod has any more: every one is refused"
        yield Finding("failed", "quotas", f"LimitRange {limit.key}", message, "remove the resource from min and max")


def _selectors(facts: Migration) -> Iterator[Finding]:
    for label, pods in facts.astray.items():
        message = f"want nodes with the label {label}, which no node has: nobody writes it any more"
        remedy = (
            "ask for the type of card in the claim, keep what wrote the label (GPU feature discovery, for "
            "nvidia.com/gpu.product), or label the nodes"
        )
        yield Finding("warning", "node labels", some(pods), message, remedy)


OLDEST: Final = (1, 36)
TESTED: Final = (1, 38)
"""The oldest Kubernetes that has what Lode needs, and the newest that its tests run on."""
APPLY: Final = "apply the manifests of this version (manifests/controller-allocated)"


@dataclass(frozen=True, slots=True)
class Program:
    """The pods of a Deployment or DaemonSet of ours."""

    wanted: int
    ready: int


@dataclass(frozen=True, slots=True)
class Lease:
    """The controller's lease."""

    holder: str
    seconds_left: float
    """Negative once it has run out."""


@dataclass(frozen=True, slots=True)
class Right:
    """A right that a service account needs. "" is every object, or the whole cluster."""

    account: str
    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}{f' {self.name}' if self.name else ''}"


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A Linux node."""

    name: str
    kubelet: str
    runtime: str
    """``containerd://2.1.4``"""
    excluded: bool
    """Whether the plugin is kept off by a label or a node selector."""
    plugin_ready: bool
    devices: int
    """Number of our devices that it has published."""
    device_plugins: tuple[str, ...] = ()
    """Extended resources of these cards that another device plugin offers."""
    claims: int = 0
    """Number of claims that hold our devices of it."""
    drivers: tuple[str, ...] = ()
    """Other DRA drivers of these vendors with slices for this node."""
    twice: tuple[TwiceOffered, ...] = ()
    """Cards that other DRA drivers, of whatever vendor, publish beside us."""
    nvidia_names: bool = False
    """Whether our devices there have the attributes of NVIDIA's DRA driver."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts read from a cluster. None, with the reason in ``unread``, stands for a fact that could not be read."""

    version: str
    served: Mapping[str, bool]
    """By ``group/version resource``."""
    plugin: Program | None
    other_plugins: tuple[str, ...]
    """Other namespaces that have a DaemonSet of the plugin."""
    controller: Program | None
    lease: Lease | None
    controller_allocates: bool
    """Whether the flavor with the controller is installed, by what is there of it."""
    missing_classes: tuple[str, ...]
    policies: Mapping[str, str]
    """The reason why each admission policy or binding is not in force; "" if it is."""
    denied: tuple[Right, ...]
    nodes: tuple[ClusterNode, ...]
    unread: Mapping[str, str]
    """The reason why a check could not be made, by check."""
    gated: tuple[str, ...] = ()
    """Pods with the gate of a controller that is not installed, as namespace/name."""
    holding: tuple[str, ...] = ()
    """Pods with devices of a plugin that is not installed."""
    nvidia_classes: tuple[str, ...] = ()
    """The device classes with names of NVIDIA's DRA driver that select our devices."""
    migration: Migration = field(default_factory=Migration)
    also_allocated: tuple[AllocatedDriver, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Objects that make no sense, by kind and name, with the error. They count in no check."""


def check_cluster(facts: ClusterFacts) -> tuple[Finding, ...]:
    """All findings, in the order in which a cluster is set up."""
    found = (
        _version(facts),
        *_served(facts),
        *_programs(facts),
        *_lease(facts),
        *_classes(facts),
        *_policies(facts),
        *_rights(facts),
        *_left_behind(facts),
        *_nodes(facts),
        *check_allocated(facts.also_allocated),
        *check_migration(facts.migration),
        *_unreadable(facts),
    )
    unread = [
        Finding("unknown", check, "API", reason, "run this with the rights of an administrator")
        for check, reason in facts.unread.items()
    ]
    return (*(finding for finding in found if finding.check not in facts.unread), *unread)


def minor(version: str) -> tuple[int, int] | None:
    """Major and minor of ``v1.37.1`` or ``v1.36.3+k3s1``; None if that is something else."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def _version(facts: ClusterFacts) -> Finding:
    check, found = "version", minor(facts.version)
    if found is None:
        return Finding("unknown", check, "API server", f"says {facts.version!r}", "see that the server is Kubernetes")
    if found < OLDEST:
        remedy = f"upgrade Kubernetes to {OLDEST[0]}.{OLDEST[1]} or newer"
        return Finding("failed", check, "API server", f"{facts.version} is too old", remedy)
    if found > TESTED:
        remedy = "see whether a newer version of Lode names this Kubernetes"
        return Finding(
            "warning", check, "API server", f"{facts.version} is newer than what Lode is tested with", remedy
        )
    return ok(check, "API server", facts.version)


def _served(facts: ClusterFacts) -> Iterator[Finding]:
    for name, served in facts.served.items():
        if served:
            yield ok("API", name, "served")
        else:
            remedy = "serve it (--runtime-config of kube-apiserver), and enable its feature gate"
            yield Finding("failed", "API", name, "not served", remedy)


def _programs(facts: ClusterFacts) -> Iterator[Finding]:
    for namespace in facts.other_plugins:
        subject = f"DaemonSet {namespace}/lode-kubeletplugin"
        remedy = f"kubectl -n {namespace} delete daemonset,serviceaccount,networkpolicy lode-kubeletplugin"
        yield Finding("failed", "programs", subject, "a second plugin on its nodes, of another version", remedy)
    wanted = [("DaemonSet lode-kubeletplugin", facts.plugin)]
    if facts.controller_allocates:
        wanted.append(("Deployment lode-controller", facts.controller))
    elif facts.plugin is not None:
        yield ok("programs", "Deployment lode-controller", "not installed: kube-scheduler allocates")
    for subject, program in wanted:
        if program is None:
            yield Finding("failed", "programs", subject, "does not exist", APPLY)
        elif program.ready < program.wanted:
            message = f"{program.ready} of {program.wanted} pods are ready"
            remedy = f"read the log of {subject}; /readyz of a pod says what is missing"
            yield Finding("failed", "programs", subject, message, remedy)
        else:
            yield ok("programs", subject, f"{program.ready} of {program.wanted} pods are ready")


def _left_behind(facts: ClusterFacts) -> Iterator[Finding]:
    """Pods that need a program which somebody has removed before them."""
    if facts.gated:
        message = "have the gate of the controller, which is not installed: they wait without end"
        remedy = f"{APPLY}, or call `lode uninstall`, which removes the gates"
        yield Finding("failed", "pods", some(facts.gated), message, remedy)
    if facts.holding:
        message = "have devices, and no plugin is installed: once deleted they stay Terminating"
        remedy = f"{APPLY}; to uninstall, delete these pods then, and call `lode uninstall`"
        yield Finding("failed", "pods", some(facts.holding), message, remedy)


def _lease(facts: ClusterFacts) -> Iterator[Finding]:
    if not facts.controller_allocates:
        return
    check, subject = "leader", "Lease lode-controller"
    remedy = "see the log of the controller: it must be able to write the lease"
    if facts.lease is None:
        yield Finding("failed", check, subject, "no controller has ever led", remedy)
    elif not facts.lease.holder or facts.lease.seconds_left < 0:
        yield Finding("failed", check, subject, "no controller leads now", remedy)
    else:
        yield ok(check, subject, f"{facts.lease.holder} leads")


def _classes(facts: ClusterFacts) -> Iterator[Finding]:
    for name in facts.missing_classes:
        yield Finding("failed", "device classes", name, "does not exist", APPLY)
    if not facts.missing_classes:
        yield ok("device classes", "DeviceClasses", "all there")
    if facts.nvidia_classes:
        yield from _nvidia_classes(", ".join(facts.nvidia_classes), facts.nodes)


def _nvidia_classes(names: str, nodes: Sequence[ClusterNode]) -> Iterator[Finding]:
    check = "names of NVIDIA's driver"
    rivals = [node.name for node in nodes if NVIDIA_DRA_DRIVER in node.drivers]
    if rivals:
        message = f"selects devices of Lode, so no new claim gets those that {NVIDIA_DRA_DRIVER} publishes"
        remedy = f"let the pods that use {NVIDIA_DRA_DRIVER} end, and remove that driver from {some(rivals)}"
        yield Finding("failed", check, names, message, remedy)
    if any(node.devices for node in nodes) and not any(node.nvidia_names for node in nodes):
        message = "selects devices of Lode, and none of them has the attributes of these names"
        yield Finding("failed", check, names, message, "set nvidiaDraNames in the settings of both programs")
    elif not rivals:
        yield ok(check, names, "select devices of Lode")


def _policies(facts: ClusterFacts) -> Iterator[Finding]:
    for name, problem in facts.policies.items():
        if problem:
            yield Finding("failed", "policies", name, problem, APPLY)
        else:
            yield ok("policies", name, "in force")


def _rights(facts: ClusterFacts) -> Iterator[Finding]:
    denied: dict[str, list[str]] = {}
    for right in facts.denied:
        denied.setdefault(right.account, []).append(str(right))
    for account, rights in denied.items():
        yield Finding("failed", "rights", account, f"may not {some(rights, '; ')}", APPLY)
    if not denied:
        yield ok("rights", "service accounts", "may do what they need")


def _nodes(facts: ClusterFacts) -> Iterator[Finding]:
    served = [node for node in facts.nodes if not node.excluded]
    yield from _kubelets(served)
    yield from _runtimes(served)
    unready = [node.name for node in served if not node.plugin_ready]
    remedy = "describe the pods of lode-kubeletplugin on these nodes, and read their logs"
    if facts.plugin is not None and unready:
        yield Finding("failed", "plugin", some(unready), "no plugin of the node is ready", remedy)
    elif facts.plugin is not None and served:
        yield ok("plugin", f"{len(served)} nodes", "the plugin is ready and registered with the kubelet")
    devices = sum(node.devices for node in served)
    if devices and facts.plugin is None:
        message, remedy = (
            f"{devices} devices are published, and no plugin prepares them",
            f"{APPLY}, or `lode uninstall`",
        )
        yield Finding("failed", "devices", f"{len(served)} nodes", message, remedy)
    elif devices:
        publishing = sum(bool(node.devices) for node in served)
        yield ok("devices", f"{publishing} of {len(served)} nodes", f"{devices} devices are published")
    else:
        remedy = "run `lode inventory` in a plugin's pod on a node with cards: it says why nothing is offered"
        yield Finding("warning", "devices", f"{len(served)} nodes", "no node has published a device", remedy)
    yield from _rivals(served)


def _unreadable(facts: ClusterFacts) -> Iterator[Finding]:
    for subject, error in sorted(facts.unreadable.items())[:SHOWN]:
        yield Finding("warning", "objects", subject, f"cannot be read and counts nowhere: {error}", "write it anew")
    if (more := len(facts.unreadable) - SHOWN) > 0:
        yield Finding("warning", "objects", f"{more} more", "cannot be read and count nowhere", "write them anew")


def _kubelets(nodes: list[ClusterNode]) -> Iterator[Finding]:
    old = [node.name for node in nodes if (found := minor(node.kubelet)) is not None and found < OLDEST]
    if old:
        yield Finding("failed", "kubelets", some(old), "older than 1.36", "upgrade these nodes, or exclude them")
    elif nodes:
        yield ok("kubelets", f"{len(nodes)} nodes", ", ".join(sorted({node.kubelet for node in nodes})))


def _runtimes(nodes: list[ClusterNode]) -> Iterator[Finding]:
    old, unsure, known = [], [], set()
    for node in nodes:
        name, _, version = node.runtime.partition("://")
        known.add(node.runtime)
        at = minor(version)
        if name == "containerd" and at is not None and at < (1, 7):
            old.append(node.name)
        elif name == "containerd" and at is not None and at < (2, 0):
            unsure.append(node.name)
    if old:
        message = "containerd is older than 1.7 and gives containers no CDI devices of claims"
        yield Finding("failed", "container runtime", some(old), message, "upgrade containerd to 2.0 or newer")
    if unsure:
        remedy = "run `lode doctor node` there: it reads the configuration of containerd; better, upgrade to 2.0"
        yield Finding("warning", "container runtime", some(unsure), "containerd 1.7 has CDI off by default", remedy)
    if nodes and not old and not unsure:
        yield ok("container runtime", f"{len(nodes)} nodes", ", ".join(sorted(known)))


_TWICE: Final = "see that no card of these nodes is handed out twice:"


def _rivals(nodes: list[ClusterNode]) -> Iterator[Finding]:
    plugins: dict[str, list[ClusterNode]] = {}
    drivers: dict[str, list[str]] = {}
    for node in nodes:
        for resource in node.device_plugins:
            plugins.setdefault(resource, []).append(node)
        for driver in set(node.drivers) - {one.driver for one in node.twice}:
            drivers.setdefault(driver, []).append(node.name)
    for resource, offering in plugins.items():
        yield from _device_plugin(resource, offering)
    twice = list(check_twice((node.name, node.twice, node.claims) for node in nodes))
    yield from twice
    for driver, names in sorted(drivers.items()):
        remedy = f"{_TWICE} remove the other driver there, or exclude the nodes"
        yield Finding("warning", "other drivers", some(names), f"the DRA driver {driver} publishes devices", remedy)
    if not plugins and not drivers and not twice:
        yield ok("other drivers", f"{len(nodes)} nodes", "no other driver of these cards")


def _device_plugin(resource: str, nodes: Sequence[ClusterNode]) -> Iterator[Finding]:
    """Cards of a device plugin are closed to claims. Nothing closes cards of claims to a device plugin."""
    held, quiet = [node.name for node in nodes if node.claims], [node.name for node in nodes if not node.claims]
    if held:
        message = f"a device plugin offers {resource} while claims hold cards: one card can be in two hands"
        remedy = f"kubectl lode handover {held[0]} takes the node from the device plugin"
        yield Finding("failed", "other drivers", some(held), message, remedy)
    if quiet:
        remedy = f"{_TWICE} kubectl lode handover {quiet[0]}, or exclude the nodes"
        yield Finding("warning", "other drivers", some(quiet), f"a device plugin offers {resource}", remedy)
