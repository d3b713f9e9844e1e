"""Keeps equal parts of objects once. Pure.

The pods of a Deployment have equal needs, claims of a template have equal requests, and thousands of objects name the
same nodes and namespaces. Only the use of memory depends on it.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final, Generic, TypeVar

from controller.gangs import GangHints
from controller.placement import Needs
from controller.state.claims import ClaimRecord
from controller.state.pods import PodView
from driver.cache_key import cache_key
from driver.model import Allocation, ClaimSpec, DeviceId, NodeSelector, Result

T = TypeVar("T")

_MOST_NEEDS: Final = 1 << 13
_MOST_SHAPES: Final = 1 << 12
_MOST_TEXTS: Final = 1 << 16


class Kept(Generic[T]):
    """Values of one type. Safe in any thread: a race only keeps a value twice.

    Args:
        key: equal for values that can stand for each other.
        most: how many values are remembered; beyond it, remembering starts anew.
    """

    def __init__(self, key: Callable[[T], Hashable], most: int):
        self._key = key
        self._most = most
        self._values: dict[Hashable, T] = {}

    def one(self, value: T) -> T:
        """Return the value that was seen first of those that equal this one."""
        if len(self._values) >= self._most:
            self._values.clear()
        return self._values.setdefault(self._key(value), value)


class SharedPods:
    """Makes pods share equal parts."""

    def __init__(self) -> None:
        self._needs: Kept[Needs] = Kept(cache_key, _MOST_NEEDS)
        self._hints: Kept[GangHints] = Kept(lambda hints: hints, _MOST_NEEDS)
        self._texts: Kept[str] = Kept(str, _MOST_TEXTS)

    def shared(self, pod: PodView) -> PodView:
        """Return the pod with parts of pods that were seen before."""
        text = self._texts.one
        return replace(
            pod,
            namespace=text(pod.namespace),
            node_name=text(pod.node_name),
            created=text(pod.created),
            needs=self._needs.one(pod.needs),
            gang=pod.gang and self._hints.one(pod.gang),
        )


class SharedClaims:
    """Makes claims share equal parts."""

    def __init__(self) -> None:
        self._specs: Kept[tuple[str, ClaimSpec]] = Kept(lambda pair: pair[0], _MOST_SHAPES)
        self._selectors: Kept[NodeSelector] = Kept(lambda selector: selector, _MOST_TEXTS)
        self._texts: Kept[str] = Kept(str, _MOST_TEXTS)

    def shared(self, record: ClaimRecord) -> ClaimRecord:
        """Return the claim with parts of claims that were seen before."""
        shape, spec = self._specs.one((record.shape, record.claim.spec))
        claim = record.claim
        allocation = claim.allocation and self._allocation(claim.allocation)
        namespace = self._texts.one(claim.namespace)
        claim = replace(claim, namespace=namespace, spec=spec, allocation=allocation)
        return replace(record, shape=shape, claim=claim, created=self._texts.one(record.created))

    def _allocation(self, allocation: Allocation) -> Allocation:
        nodes = allocation.nodes and self._selectors.one(allocation.nodes)
        results = tuple([self._result(result) for result in allocation.results])
        return replace(allocation, nodes=nodes, results=results, timestamp=self._texts.one(allocation.timestamp))

    def _result(self, result: Result) -> Result:
        text, device = self._texts.one, result.device
        return replace(
            result,
            request=text(result.request),
            device=DeviceId(text(device.driver), text(device.pool), text(device.device)),
        )
