"""Equal parts of objects are kept once. Pure.

The pods of a Deployment ask for the same, and thousands of objects name the same nodes and namespaces. Only memory
depends on what is done here.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final, Generic, TypeVar

from controller.placement import Needs
from controller.state.podview import PodView
from driver.frozen import frozen

T = TypeVar("T")

_MOST_NEEDS: Final = 1 << 13
_MOST_TEXTS: Final = 1 << 15


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
        """The value that was seen first of those that equal this one."""
        if len(self._values) >= self._most:
            self._values.clear()
        return self._values.setdefault(self._key(value), value)


class SharedPods:
    """Makes pods share what is equal."""

    def __init__(self) -> None:
        self._needs: Kept[Needs] = Kept(frozen, _MOST_NEEDS)
        self._texts: Kept[str] = Kept(str, _MOST_TEXTS)

    def shared(self, pod: PodView) -> PodView:
        """The same pod, with parts of pods that were seen before."""
        text = self._texts.one
        return replace(
            pod,
            namespace=text(pod.namespace),
            node_name=text(pod.node_name),
            created=text(pod.created),
            needs=self._needs.one(pod.needs),
        )
