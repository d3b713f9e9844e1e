"""The document as it is sent: written in a thread of its own, compressed once, and kept until something changes."""

import gzip
import hashlib
import json
import threading
from dataclasses import dataclass
from typing import Final, Protocol

from cli.ui.contents import FleetContents
from cli.ui.document import whole_document
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


def packed_document(contents: FleetContents, driver: str, now: float) -> PackedDocument:
    """Return the document of the fleet, read at ``now`` (seconds since the epoch)."""
    body = json.dumps(whole_document(contents, driver), separators=(",", ":"), ensure_ascii=False)
    text = f'{{"readAt":"{rfc3339(now)}",{body[1:]}'.encode()
    return PackedDocument(text, gzip.compress(text, _LEVEL, mtime=0), hashlib.sha256(body.encode()).hexdigest()[:32])


class FleetDocuments:
    """Keeps the newest document. Readers never wait for the next."""

    def __init__(self, fleet: WatchedFleet, driver: str, clock: Clock):
        self._fleet = fleet
        self._driver = driver
        self._clock = clock
        self._newest: PackedDocument | None = None
        self._written: object = None
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

    @property
    def newest(self) -> PackedDocument | None:
        """The document that was written last."""
        return self._newest

    def age(self) -> float:
        """Seconds since all of the fleet was known to be true."""
        return self._fleet.age()

    def write(self) -> None:
        """Write a document if something has changed."""
        revision = self._fleet.revision
        if revision == self._written or self._fleet.trouble:
            return
        made = packed_document(self._fleet.contents(), self._driver, self._clock.now())
        if self._newest is None or made.tag != self._newest.tag:
            self._newest = made
        self._written = revision

    def _write_until_closed(self) -> None:
        while not self._closed.is_set():
            began = self._clock.monotonic()
            self.write()
            spent = self._clock.monotonic() - began
            self._closed.wait(max(_LEAST_SECONDS, _TIMES * spent))
