"""A page that is served from an API in memory, and requests to it."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cli.ui.questions import ClusterQuestions
from cli.ui.run import served
from driver.kube.api import Api, Object
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.cli.ui.fleets import KINDS, NAMES

JSON = Any
INTERRUPTIBLE = ("env", "--default-signal=INT")
"""Before a command that a test interrupts: a program that was started in the background may ignore interrupts, and then
those that it starts do."""


def filled(api: MemoryApi, *objects: Object) -> MemoryApi:
    """The API with these objects and their status in it."""
    for obj in objects:
        resource = KINDS[obj["kind"]]
        namespace = obj["metadata"].get("namespace", "") if resource.namespaced else ""
        metadata = {name: obj["metadata"][name] for name in ("name", "namespace", "labels") if name in obj["metadata"]}
        made = api.create(resource, {**obj, "metadata": metadata}, namespace or "default" * resource.namespaced)
        if obj.get("status"):
            api.update(resource, {**made, "status": obj["status"]}, "status")
    return api


def memory_api(*objects: Object) -> MemoryApi:
    return filled(MemoryApi(VirtualClock(), blocking=True), *objects)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> JSON:
        return json.loads(self.body)


@dataclass(frozen=True)
class Browser:
    """Asks the page at an address, with the token in it."""

    port: int
    token: str

    def ask(self, path: str, body: bytes | None = None, **headers: str | None) -> Reply:
        """``headers`` with underscores; None leaves out one that is sent otherwise."""
        sent = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}  # type: ignore[misc]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(
                "GET" if body is None else "POST",
                path,
                body,
                {name: value for name, value in sent.items() if value is not None},
            )
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


@contextmanager
def page_of(api: Api) -> Iterator[Browser]:
    """The page of a cluster, as ``lode ui`` serves it."""
    with served(ClusterQuestions(api, NAMES)) as address:
        parts = urlsplit(address)
        assert parts.port is not None
        yield Browser(parts.port, parts.fragment.removeprefix("token="))
