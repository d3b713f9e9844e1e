"""State of a node's simulated cards. It outlives the plugin; a reboot removes what it removes on real cards."""

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from driver.errors import TransientFault
from driver.files import Files
from kubeletplugin.hardware.actions import Action, Handle, VnpuInstance, action_from, action_to


@dataclass(frozen=True, slots=True)
class SimulatedState:
    """The existing objects, by the keys of the actions that create them. Pure."""

    existing: Mapping[str, tuple[Action, Handle]] = field(default_factory=dict)
    in_use: frozenset[str] = frozenset()
    """Keys of objects that processes use."""
    lost: frozenset[str] = frozenset()
    """The uuids of cards that have fallen off the bus."""
    made: int = 0
    """Number of instances made so far, from which their uuids are derived."""

    def with_action(self, action: Action, handle: Handle) -> "SimulatedState":
        """The state with the action's object."""
        return replace(self, existing={**self.existing, action.key: (action, handle)}, made=self.made + 1)

    def without(self, key: str) -> "SimulatedState":
        """The state without the object of this key."""
        existing = {other: value for other, value in self.existing.items() if other != key}
        return replace(self, existing=existing, in_use=self.in_use - {key})

    def rebooted(self) -> "SimulatedState":
        """The state after a reboot: vNPUs come back, and everything else is gone."""
        existing = {key: value for key, value in self.existing.items() if isinstance(value[0], VnpuInstance)}
        return replace(self, existing=existing, in_use=frozenset())


class StateStore(Protocol):
    """Keeps the state of a simulated node. Methods may raise TransientFault."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other programs from changing the state meanwhile."""

    def load(self) -> SimulatedState:
        """The state that was saved last."""

    def save(self, state: SimulatedState) -> None:
        """Replace the state."""


class MemoryStore:
    """A state that lives as long as this object."""

    def __init__(self) -> None:
        self._state = SimulatedState()

    def lock(self) -> AbstractContextManager[None]:
        """See ``StateStore``; no other program knows this object."""
        return nullcontext()

    def load(self) -> SimulatedState:
        """See ``StateStore``."""
        return self._state

    def save(self, state: SimulatedState) -> None:
        """See ``StateStore``."""
        self._state = state


class FileStore:
    """A state in a file of the node; another boot id than it was saved with is a reboot."""

    def __init__(self, files: Files, path: str, boot_id: str):
        self._files = files
        self._path = path
        self._boot_id = boot_id

    @contextmanager
    def lock(self) -> Iterator[None]:
        """See ``StateStore``. Two instances of the plugin serve a node during an update. Nothing stays."""
        path = f"{self._path}.lock"
        with ExitStack() as held:
            try:
                held.enter_context(self._files.lock(path))
            except OSError as error:
                raise TransientFault(f"{path}: cannot be locked: {error}") from error
            try:
                yield
            finally:
                held.close()
                self._files.remove_lock(path)

    def load(self) -> SimulatedState:
        """See ``StateStore``; a file that cannot be read is a node on which nothing exists."""
        try:
            data = self._files.read(self._path)
            raw = json.loads(data) if data else {}
            existing = {}
            for item in raw.get("existing", []):
                action = action_from(item["action"])
                existing[action.key] = (action, item["handle"])
            in_use, lost = frozenset(raw.get("inUse", [])), frozenset(raw.get("lost", []))
            state = SimulatedState(existing, in_use, lost, int(raw.get("made", 0)))
        except OSError as error:
            raise TransientFault(f"{self._path}: cannot be read: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError):
            return SimulatedState()
        return state if raw.get("bootId", self._boot_id) == self._boot_id else state.rebooted()

    def save(self, state: SimulatedState) -> None:
        """See ``StateStore``."""
        raw: dict[str, Any] = {
            "bootId": self._boot_id,
            "made": state.made,
            "inUse": sorted(state.in_use),
            "lost": sorted(state.lost),
            "existing": [{"action": action_to(a), "handle": dict(handle)} for a, handle in state.existing.values()],
        }
        try:
            self._files.write(self._path, json.dumps(raw, indent=2).encode() + b"\n")
        except OSError as error:
            raise TransientFault(f"{self._path}: cannot be written: {error}") from error
