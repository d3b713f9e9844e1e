"""A small API server that answers lists and watches from generated JSON, as fast as a client can read.

    python -m benchmarks.memory.apiserver h100x8-1000

It prints its port. It pages lists as kube-apiserver does, keeps watches open, and stores the few objects that a client
writes. Filling a real API server with as many pods takes longer than the benchmark.
"""

import json
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks.memory.objects import NAMESPACE, WAITING, Stored, cluster
from benchmarks.memory.sizes import SIZES
from controller.policies import expected_policies, policy_resource
from driver.kube.api import PODS, RESOURCE_CLAIMS, Invalid, NotFound, Object, Resource
from memoryapi.patches import json_patch, merge, strategic
from memoryapi.schema import type_of

BOOKMARK_SECONDS = 30.0
LET_GO = "/benchmark/let-go"
"""Answers ``true`` as soon as the waiting pod's gate is removed."""


_NOTHING = Stored(0, lambda _: b"")


class Written:
    """The objects that clients have written, and those that they are expected to write, by path."""

    def __init__(self, stored: Mapping[Resource, Stored]):
        self._lock = threading.Lock()
        self._version = 1_000_000
        self._objects: dict[str, Object] = {}
        self._kinds: dict[str, str] = {}
        for resource in (RESOURCE_CLAIMS, PODS):
            last = json.loads(stored[resource].text(stored[resource].count - 1))
            path = resource.path(NAMESPACE, WAITING)
            self._objects[path] = {"apiVersion": resource.api_version, "kind": resource.kind, **last}
        for policy in expected_policies():
            # Without them, the controller allocates nothing.
            self._objects[policy_resource(policy).path(name=policy["metadata"]["name"])] = policy

    @property
    def let_go(self) -> bool:
        """Whether the waiting pod has no gate any more."""
        return not self._objects[PODS.path(NAMESPACE, WAITING)]["spec"].get("schedulingGates")

    def get(self, path: str) -> Object:
        """The object at the path of its collection and name."""
        if path not in self._objects:
            raise NotFound(f"{path} not found", status=404, reason="NotFound")
        return self._objects[path]

    def put(self, path: str, obj: Object) -> Object:
        """Create or replace an object."""
        with self._lock:
            self._version += 1
            metadata = {"uid": path, **obj["metadata"], "resourceVersion": str(self._version)}
            self._objects[path] = {**obj, "metadata": metadata}
            return self._objects[path]

    def patch(self, path: str, content_type: str, patch: Any) -> Object:
        """Change an object that exists."""
        before = self.get(path)
        if content_type == "application/json-patch+json":
            return self.put(path, json_patch(before, patch))
        if content_type == "application/strategic-merge-patch+json":
            return self.put(path, strategic(type_of(before["kind"]), before, patch))
        return self.put(path, merge(before, patch))


class ApiServer(ThreadingHTTPServer):
    """The server. Watches end when ``stopped`` is set."""

    daemon_threads = True

    def __init__(self, stored: Mapping[Resource, Stored]):
        super().__init__(("127.0.0.1", 0), Handler)
        self.kinds = {resource.path(): found for resource, found in stored.items()}
        self.written = Written(stored)
        self.stopped = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a client."""

    server: ApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Get, list or watch."""
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if url.path == LET_GO:
            self._answer(200, json.dumps(self.server.written.let_go).encode())
        elif query.get("watch") == "true":
            self._watch(float(query.get("timeoutSeconds", 300)))
        elif "limit" in query:
            found = self.server.kinds.get(url.path, _NOTHING)
            self._list(found, int(query["limit"]), int(query.get("continue", 0)))
        else:
            self._object(lambda: self.server.written.get(url.path))

    def do_POST(self) -> None:
        """Create."""
        obj = self._body()
        path = f"{urlsplit(self.path).path}/{obj['metadata'].get('name', 'generated')}"
        self._object(lambda: self.server.written.put(path, obj), 201)

    def do_PUT(self) -> None:
        """Update."""
        self._object(lambda: self.server.written.put(self._target(), self._body()))

    def do_PATCH(self) -> None:
        """Patch."""
        content_type = self.headers.get("Content-Type", "")
        self._object(lambda: self.server.written.patch(self._target(), content_type, self._body()))

    def _target(self) -> str:
        return urlsplit(self.path).path.removesuffix("/status")

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _object(self, call: Any, status: int = 200) -> None:
        try:
            self._answer(status, json.dumps(call()).encode())
        except (NotFound, Invalid) as error:
            self._answer(error.status, json.dumps({"reason": error.reason, "message": str(error)}).encode())

    def _list(self, found: Stored, limit: int, start: int) -> None:
        end = min(found.count, start + limit)
        rest = str(end) if end < found.count else ""
        metadata = json.dumps({"resourceVersion": "1000000", "continue": rest})
        head = f'{{"metadata":{metadata},"items":['.encode()
        self._answer(200, head + b",".join(found.text(place) for place in range(start, end)) + b"]}")

    def _watch(self, seconds: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1000000"}}}
        line = json.dumps(bookmark).encode() + b"\n"
        while seconds > 0:
            if self.server.stopped.wait(min(seconds, BOOKMARK_SECONDS)):
                break
            seconds -= BOOKMARK_SECONDS
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        """Answer the requests of one connection, until the client is gone."""
        try:
            super().handle()
        except ConnectionError:
            return

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def main() -> int:
    """Serve until the standard input is closed."""
    size = next(size for size in SIZES if size.name == sys.argv[1])
    server = ApiServer(cluster(size))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    server.stopped.set()
    server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
