"""Fields that the API server does not store because their feature gate is off. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from driver.kube.api import Object
from driver.model import Slice
from driver.wire import slice_from
from kubeletplugin.publish.slices import same_content


class DroppedFields:
    """Fields of our slices that the API server does not store. Each is reported once and then no longer compared.

    Kept in memory only. After a restart the complete slices are sent once more, so that a feature gate that was enabled
    meanwhile takes effect.
    """

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self._stored: dict[str, tuple[Slice, Slice]] = {}
        """The sent and the stored slice, by name."""
        self.counters = False
        """Whether counters were dropped; only they keep the kinds of a card apart."""

    def adopt(self, slices: Iterable[Slice]) -> tuple[Slice, ...]:
        """Replace ``slices`` by what the server stores of them, as far as that is known."""
        adopted = []
        for part in slices:
            sent, stored = self._stored.get(part.name, (None, part))
            adopted.append(stored if sent is not None and same_content(sent, part) else part)
        return tuple(adopted)

    def compare(self, sent: Object, stored: Object) -> tuple[str, ...]:
        """Note the fields of ``sent`` that were dropped; returns those that were not reported before."""
        if sent["spec"] == stored["spec"]:
            return ()
        before, after = slice_from(sent), slice_from(stored)
        if same_content(before, after):
            return ()
        fields = set(dropped_fields(sent["spec"], stored["spec"])) or {"(a value was changed)"}
        new = tuple(sorted(fields - self._reported))
        self._reported |= fields
        self._stored[before.name] = (replace(before, generation=0), replace(after, generation=0))
        self.counters = self.counters or any(field.endswith(("sharedCounters", "consumesCounters")) for field in fields)
        return new


def dropped_fields(sent: Any, stored: Any) -> tuple[str, ...]:
    """Fields of ``sent`` that ``stored`` lacks, such as ``devices[].taints``: each once, sorted."""
    return tuple(sorted(set(_missing(sent, stored, ""))))


def _missing(sent: Any, stored: Any, path: str) -> Iterator[str]:
    if isinstance(sent, dict):
        for key, value in sent.items():
            where = f"{path}.{key}" if path else key
            if not isinstance(stored, dict) or key not in stored:
                if value not in (None, [], {}):
                    yield where
            else:
                yield from _missing(value, stored[key], where)
    elif isinstance(sent, list):
        for index, value in enumerate(sent):
            counterpart = stored[index] if isinstance(stored, list) and index < len(stored) else None
            yield from _missing(value, counterpart, f"{path}[]")
