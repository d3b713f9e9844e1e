"""The page with a fleet that a test sets, as ``lode ui`` serves it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cli.ui.access import OneUserDoor
from cli.ui.answers import PageAnswers
from cli.ui.contents import FleetContents
from cli.ui.document import Show
from cli.ui.publishing import PackedDocument, packed_document
from cli.ui.questions import ClusterQuestions
from cli.ui.run import PAGE, PageServer
from driver.wire import Json
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.cli.ui.fleets import NAMES

TOKEN = "sesame"


class StagedFleet:
    """The documents of a fleet that a test sets; ``trouble`` and ``seconds`` are what the server says of their age."""

    def __init__(self, contents: FleetContents | None = None):
        self.trouble = "" if contents else "nothing has been read yet"
        self.shown: PackedDocument | None = None
        self.seconds = 0.0
        if contents:
            self.show(contents)

    def show(self, contents: FleetContents, *hidden: str) -> None:
        """Have another fleet from now on, without the names in namespaces that the reader may not see."""
        self.shown = packed_document(contents, NAMES.driver, 1795761600.0, frozenset(hidden))

    def newest(self, _: Show) -> PackedDocument | None:
        """What is shown, to everybody."""
        return self.shown

    def age(self) -> float:
        """As the test says."""
        return self.seconds


@contextmanager
def staged(fleet: StagedFleet) -> Iterator[str]:
    """Serve this fleet; yields the address of the page, with the token."""
    hosts: set[str] = set()
    questions = ClusterQuestions(MemoryApi(VirtualClock()), NAMES)
    server = PageServer("127.0.0.1:0", PageAnswers(fleet, OneUserDoor(TOKEN, questions), hosts, PAGE).answer)
    hosts.add(f"127.0.0.1:{server.port}")
    try:
        yield f"http://127.0.0.1:{server.port}/#token={TOKEN}"
    finally:
        server.close()


def document(fleet: StagedFleet) -> Json:
    """What the page is shown."""
    assert fleet.shown is not None
    found: Any = json.loads(fleet.shown.text)
    return dict(found)
