"""A watch in a thread, for benchmarks that note when something is first seen."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from driver.kube.api import Api, ApiError, Resource, WatchEvent

Seen = Callable[[WatchEvent, float], None]
"""Called in the thread with each event but bookmarks, and the time of its arrival in ``perf_counter`` seconds."""


@contextmanager
def watching(api: Api, resource: Resource, namespace: str, seen: Seen) -> Iterator[None]:
    """Call ``seen`` for each change in the namespace during the ``with`` block. A watch that ends is started again."""
    version = api.list(resource, namespace=namespace, limit=1).resource_version
    ended = threading.Event()

    def watch(version: str) -> None:
        while not ended.is_set():
            try:
                for event in api.watch(resource, namespace=namespace, resource_version=version, timeout_seconds=600):
                    now = time.perf_counter()
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        seen(event, now)
            except ApiError:
                ended.wait(0.5)

    threading.Thread(target=watch, args=(version,), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
