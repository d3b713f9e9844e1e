"""Whether pods of other systems are adopted as it is meant, and what goes by old names and labels still. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cli.doctor.findings import Finding, ok, some
from driver.adoption import NAMESPACE_LABEL, SOURCES

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
