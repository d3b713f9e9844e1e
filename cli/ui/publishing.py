"""The document as it is sent: written in a thread of its own, compressed once, and kept until something changes."""

import gzip
import hashlib
import json
import threading
from dataclasses import dataclass
from typing import Final, Protocol

from cli.ui.contents import FleetContents
from cli.ui.document import Show, whole_document
from driver.clock import Clock, rfc3339
from driver.threads import start_thread

_LEAST_SECONDS: Final = 1.0
"""Between two documents."""
_TIMES: Final = 4
"""So many times what writing a document takes passes until the next: at most a fifth of a core is used."""
_LEVEL: Final = 6
"""Of compression: a document is written more rarely than it is sent."""


class WatchedFleet(Protocol):
    """What the document is written from."""

    @property
    def revision(self) -> object:
        """Differs after each change."""

    @property
    def trouble(self) -> str:
        """Why there is nothing to show yet; "" if there is."""

    def contents(self) -> FleetContents:
        """Everything that is known now."""

    def age(self) -> float:
        """Seconds since all of it was known to be true."""


@dataclass(frozen=True, slots=True)
class PackedDocument:
    """A document as it is sent.

    Attributes:
        tag: differs between documents that differ in more than ``readAt``.
    """

    text: bytes
    packed: bytes
    tag: str


_ALL: Final[frozenset[str]] = frozenset()
_MOST_KEPT: Final = 16
"""Documents of one state of the fleet for users who see only some namespaces."""


@dataclass(frozen=True, slots=True)
class _Written:
    """The documents of one state of the fleet, by the namespaces in which they hide names; "" can be one."""

    contents: FleetContents
    namespaces: frozenset[str]
    documents: dict[frozenset[str], PackedDocument]
    now: float


def packed_document(contents: FleetContents, driver: str, now: float, hidden: frozenset[str] = _ALL) -> PackedDocument:
    """Return the document of the fleet, read at ``now`` (seconds since the epoch), without names in some namespaces."""
    found = whole_document(contents, driver, lambda namespace: namespace not in hidden)
    written = json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A text can have half of a character, as JSON allows.
    body = written.encode(errors="replace")
    text = b'{"readAt":"' + rfc3339(now).encode() + b'",' + body[1:]
    return PackedDocument(text, gzip.compress(text, _LEVEL, mtime=0), hashlib.sha256(body).hexdigest()[:32])


class FleetDocuments:
    """Keeps the newest document. Readers never wait for the next."""

    def __init__(self, fleet: WatchedFleet, driver: str, clock: Clock):
        self._fleet = fleet
        self._driver = driver
        self._clock = clock
        self._newest: _Written | None = None
        self._revision: object = None
        self._hiding = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Write documents from now on, until ``close``."""
        start_thread("documents", self._write_until_closed, self._closed.set)

    def close(self) -> None:
        """Write no more."""
        self._closed.set()

    @property
    def trouble(self) -> str:
        """Why there is no document; "" if there is one."""
        return "" if self._newest else self._fleet.trouble or "the document is being written"

    def newest(self, sees: Show) -> PackedDocument | None:
        """Return the document that was written last, for somebody who sees the names in these namespaces."""
        written = self._newest
        if written is None:
            return None
        hidden = frozenset(namespace for namespace in written.namespaces if not sees(namespace))
        found = written.documents.get(hidden)
        if found is not None:
            return found
        with self._hiding:
            if hidden not in written.documents:
                made = packed_document(written.contents, self._driver, written.now, hidden)
                while len(written.documents) > _MOST_KEPT:
                    written.documents.pop(next(one for one in written.documents if one))
                written.documents[hidden] = made
            return written.documents[hidden]

    def age(self) -> float:
        """Seconds since all of the fleet was known to be true."""
        return self._fleet.age()

    def write(self) -> None:
        """Write a document if something has changed."""
        revision = self._fleet.revision
        if revision == self._revision or self._fleet.trouble:
            return
        contents, now = self._fleet.contents(), self._clock.now()
        made = packed_document(contents, self._driver, now)
        if self._newest is None or made.tag != self._newest.documents[_ALL].tag:
            self._newest = _Written(contents, frozenset({"", *contents.namespaces()}), {_ALL: made}, now)
        self._revision = revision

    def _write_until_closed(self) -> None:
        while not self._closed.is_set():
            began = self._clock.monotonic()
            self.write()
            spent = self._clock.monotonic() - began
            self._closed.wait(max(_LEAST_SECONDS, _TIMES * spent))
