"""The page of ``lode ui``: objects that the document shows, and requests of anybody who can connect."""

import json
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Final

from cli.ui.access import TOKEN_REVIEWS, Door, OneUserDoor, ReviewedDoor
from cli.ui.answers import PageAnswers, PageRequest
from cli.ui.contents import FleetContents
from cli.ui.following import FOLLOWED, FollowedFleet
from cli.ui.publishing import PackedDocument, packed_document
from cli.ui.questions import ClusterQuestions
from driver.kube.api import NODES, RESOURCE_SLICES, Api, ApiCall, Resource
from driver.kube.codec import decode_page
from driver.kube.reflector import Upserted
from driver.names import Names
from memoryapi import MemoryApi
from tests.fuzz.hostile import encoded, mutated
from tests.fuzz.scene import SCENE, kept
from tests.fuzz.source import Source
from tests.fuzz.targets.target import Target
from tests.simulation.clock import VirtualClock
from tests.unit.cli.cluster import node, slices, stored

_NAMES: Final = Names()
_SHOWN: Final = [(resource, base) for resource, base in SCENE if resource in FOLLOWED]
_TOKEN: Final = "sesame"
_MOST_BYTES: Final = 1 << 20
"""Of the document of two nodes."""


@cache
def _good() -> FleetContents:
    return _fleet().contents()


def _fleet() -> FollowedFleet:
    fleet = FollowedFleet(_NAMES)
    for raw in slices("good", "t4x2", ("whole",)):
        fleet.take(Upserted(RESOURCE_SLICES, raw))
    fleet.take(Upserted(NODES, stored(node("good"))))
    return fleet


def _document(data: bytes) -> None:
    """The document has the cards of another node, and any program can read it."""
    source = Source(data)
    resource, base = source.choice(_SHOWN)
    raw = encoded(mutated(base, source, kept))
    if raw == b"{}":
        return
    fleet = _fleet()
    _take(fleet, resource, raw)
    document = packed_document(fleet.contents(), _NAMES.driver, 1.0)
    assert len(document.text) < _MOST_BYTES
    found = json.loads(document.text.decode(), parse_constant=_refuse)
    at = found["nodes"]["name"].index("good")
    assert found["nodes"]["cards"][at] == 2, "the cards of another node are hidden"


def _take(fleet: FollowedFleet, resource: Resource, raw: bytes) -> None:
    text = b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % raw
    for obj in decode_page(text, {"apiVersion": resource.api_version, "kind": resource.kind}).items:
        fleet.take(Upserted(resource, obj, "9"))


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


class _Good:
    """The document of the good fleet."""

    trouble = ""

    def newest(self, _: object) -> PackedDocument:
        return packed_document(_good(), _NAMES.driver, 1.0)

    def age(self) -> float:
        return 0.0


class _Reviewer(Api):
    """Knows one token, whose user may list everything."""

    def call(self, call: ApiCall) -> Any:
        if call.resource != TOKEN_REVIEWS:
            return {"status": {"allowed": True}}
        return {"status": {"authenticated": call.body["spec"]["token"] == _TOKEN, "user": {"username": "anna"}}}


def _request(data: bytes) -> None:
    """Any request gets an answer, and one without the token no data."""
    source = Source(data)
    method = source.choice(("GET", "POST", "PUT", ""))
    path = source.choice(("/fleet.json", "/explain", "/simulate", "/", "/main.js", ""))
    authorization = source.choice((f"Bearer {_TOKEN}", "Bearer x", ""))
    text = data.decode("latin-1")
    headers = {"host": source.choice(("here", text)), "authorization": authorization or text, "if-none-match": text}
    questions = ClusterQuestions(MemoryApi(VirtualClock()), _NAMES)
    own: Door = OneUserDoor(_TOKEN, questions)
    shared: Door = ReviewedDoor(_Reviewer(), lambda _: nullcontext(questions), VirtualClock())
    door = source.choice((own, shared))
    answers = PageAnswers(_Good(), door, {"here"}, Path(__file__).parents[3] / "cli/ui/page")
    found = answers.answer(PageRequest(method, f"{path}{text}", headers, data))
    assert found.headers["Content-Security-Policy"]
    if _TOKEN not in headers["authorization"]:
        assert b'"readAt"' not in found.body
        assert found.status != 304


TARGETS: Final = (
    Target("page", _document, tuple(bytes([number]) for number in range(len(_SHOWN)))),
    Target("requests", _request, (b"", bytes([0, 0, 0]), b"?what=pod/p", b"/../../etc/passwd", "?é=%ff".encode())),
)
