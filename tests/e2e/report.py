"""The state of the cluster for the report of a failed test.

It contains only what belongs to the test, and is short enough to survive in a truncated log.
"""

import json
from collections.abc import Callable, Iterable

from testclusters.commands import CommandFailed
from tests.e2e import nodes
from tests.e2e.client import Client, Object, results
from tests.e2e.controller import SYSTEM
from tests.e2e.nodes import PLUGIN_NAMESPACE

BUDGET = 6000
"""Characters of the whole report."""
LINE = 300


def state(client: Client, namespace: str) -> str:
    """Pods, claims and warnings of a namespace, our programs and their logged errors, and what is left on the nodes.

    It has at most `BUDGET` characters, with the last warnings and log lines.
    """
    parts = (
        ("pods and claims", 1400, lambda: [*_pods(client, namespace), *_claims(client, namespace)]),
        ("warnings", 1300, lambda: _warnings(client, namespace)),
        ("our programs", 700, lambda: _programs(client)),
        ("the controller's log", 1000, lambda: _log(client, SYSTEM, "lode-controller")),
        ("the plugins' log", 1000, lambda: _log(client, PLUGIN_NAMESPACE, "lode-kubeletplugin")),
        ("prepared or left", 400, lambda: _leftovers(client)),
    )
    return "\n".join(f"{title}:\n{_section(get, size)}" for title, size, get in parts)[:BUDGET]


def _section(get: Callable[[], Iterable[str]], size: int) -> str:
    try:
        lines = [line if len(line) <= LINE else f"{line[: LINE - 5]}[...]" for line in get()]
    except (CommandFailed, LookupError, ValueError, OSError) as error:
        return f"  not known: {error}"[:size]
    kept: list[str] = []
    for line in reversed(lines):
        size -= len(line) + 3
        if size < 0:
            return "\n".join([f"  [{len(lines) - len(kept)} more]", *kept])
        kept.insert(0, f"  {line}")
    return "\n".join(kept) or "  none"


def _pods(client: Client, namespace: str) -> Iterable[str]:
    listed = client.list("pods", namespace)
    healthy = [pod for pod in listed if _problems(pod) == "" and "deletionTimestamp" not in pod["metadata"]]
    for pod in listed:
        if pod not in healthy:
            meta, status, node = pod["metadata"], pod["status"], pod["spec"].get("nodeName", "no node")
            deleted = f", deleted {meta['deletionTimestamp']}" if "deletionTimestamp" in meta else ""
            yield f"pod {meta['name']}: {status.get('phase')} on {node}{deleted}; {_problems(pod)}"
    yield f"{len(healthy)} pods run"


def _problems(pod: Object) -> str:
    conditions = pod["status"].get("conditions", [])
    problems = [
        f"{it['type']} {it.get('reason', '')}: {it.get('message', '')}" for it in conditions if it["status"] != "True"
    ]
    return "; ".join(problems) if conditions else "no conditions yet"


def _claims(client: Client, namespace: str) -> Iterable[str]:
    for claim in client.list("resourceclaims", namespace):
        held = [f"{it['pool']}/{it['device']}" for it in results(claim)]
        status = claim.get("status") or {}
        users = [it["name"] for it in status.get("reservedFor", [])]
        deleted = ", deleted" if "deletionTimestamp" in claim["metadata"] else ""
        messages = [f"{it.get('reason')}: {it.get('message')}" for it in status.get("conditions", [])]
        yield f"claim {claim['metadata']['name']}: {held or 'not allocated'} for {users}{deleted} {'; '.join(messages)}"


def _warnings(client: Client, namespace: str) -> Iterable[str]:
    events = client.list("events", namespace, fields="type=Warning")
    events.sort(key=lambda event: str(event.get("lastTimestamp")))
    return [f"{it['involvedObject']['name']}: {it['reason']}: {it['message']}" for it in events]


def _programs(client: Client) -> Iterable[str]:
    for pod in client.list("pods", labels="app.kubernetes.io/part-of=lode"):
        for status in pod["status"].get("containerStatuses", []):
            ended = status.get("lastState", {}).get("terminated") or {}
            end = f", last ended {ended.get('finishedAt')} with {ended.get('exitCode')}" if ended else ""
            state = "ready" if status["ready"] else f"not ready {json.dumps(status.get('state'))}"
            yield f"{pod['metadata']['name']}: {state}, {status['restartCount']} restarts{end}"


def _log(client: Client, namespace: str, name: str, lines: int = 30) -> Iterable[str]:
    """The last lines in the logs of a program's replicas that are warnings, errors, or not JSON, as in a traceback."""
    label = f"app.kubernetes.io/name={name}"
    text = client.kubectl("-n", namespace, "logs", "-l", label, "--tail=1000", "--max-log-requests=20", check=False)
    return [problem for line in text.splitlines() if (problem := _warning(line))][-lines:]


def _warning(line: str) -> str:
    try:
        entry = dict(json.loads(line))
    except ValueError:
        return line
    if entry.get("level") in ("debug", "info"):
        return ""
    fields = {key: value for key, value in entry.items() if key not in ("timestamp", "level", "event", "component")}
    return f"{str(entry.get('timestamp'))[11:23]} {entry.get('level')} {entry.get('event')} {json.dumps(fields)}"


def _leftovers(client: Client) -> Iterable[str]:
    for node, items in nodes.leftovers(client).items():
        yield f"{node}: {', '.join(sorted({item.rpartition('/')[2] for item in items}))}"
