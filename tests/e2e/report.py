"""What a failed test shows of the cluster: only what belongs to it, short enough that a truncated log still has it."""

import json
from collections.abc import Callable, Iterable

from testclusters import CommandFailed
from tests.e2e import nodes
from tests.e2e.client import Client, Object, results
from tests.e2e.controller import SYSTEM

BUDGET = 6000
"""Characters in all."""
LINE = 300


def state(client: Client, namespace: str) -> str:
    """Pods and claims of a namespace, its warnings, our own programs and what they complained of, and what is prepared.

    At most `BUDGET` characters; of the warnings and the logs the last.
    """
    parts = (
        ("pods and claims", 1400, lambda: [*_pods(client, namespace), *_claims(client, namespace)]),
        ("warnings", 1300, lambda: _warnings(client, namespace)),
        ("our programs", 700, lambda: _programs(client)),
        ("the controller's log", 1000, lambda: _log(client, "lode-controller")),
        ("the plugins' log", 1000, lambda: _log(client, "lode-kubeletplugin")),
        ("prepared or left", 400, lambda: _left(client)),
    )
    return "\n".join(f"{title}:\n{_shown(look, size)}" for title, size, look in parts)[:BUDGET]


def _shown(look: Callable[[], Iterable[str]], size: int) -> str:
    try:
        lines = [line if len(line) <= LINE else f"{line[: LINE - 5]}[...]" for line in look()]
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
    well = [pod for pod in listed if _lacks(pod) == "" and "deletionTimestamp" not in pod["metadata"]]
    for pod in listed:
        if pod not in well:
            meta, status, node = pod["metadata"], pod["status"], pod["spec"].get("nodeName", "no node")
            going = f", deleted {meta['deletionTimestamp']}" if "deletionTimestamp" in meta else ""
            yield f"pod {meta['name']}: {status.get('phase')} on {node}{going}; {_lacks(pod)}"
    yield f"{len(well)} pods run"


def _lacks(pod: Object) -> str:
    conditions = pod["status"].get("conditions", [])
    said = [
        f"{it['type']} {it.get('reason', '')}: {it.get('message', '')}" for it in conditions if it["status"] != "True"
    ]
    return "; ".join(said) if conditions else "no conditions yet"


def _claims(client: Client, namespace: str) -> Iterable[str]:
    for claim in client.list("resourceclaims", namespace):
        held = [f"{it['pool']}/{it['device']}" for it in results(claim)]
        status = claim.get("status") or {}
        users = [it["name"] for it in status.get("reservedFor", [])]
        going = ", deleted" if "deletionTimestamp" in claim["metadata"] else ""
        said = [f"{it.get('reason')}: {it.get('message')}" for it in status.get("conditions", [])]
        yield f"claim {claim['metadata']['name']}: {held or 'not allocated'} for {users}{going} {'; '.join(said)}"


def _warnings(client: Client, namespace: str) -> Iterable[str]:
    events = client.list("events", namespace, "--field-selector=type=Warning", "--sort-by=.lastTimestamp")
    return [f"{it['involvedObject']['name']}: {it['reason']}: {it['message']}" for it in events]


def _programs(client: Client) -> Iterable[str]:
    for pod in client.list("pods", SYSTEM):
        for status in pod["status"].get("containerStatuses", []):
            ended = status.get("lastState", {}).get("terminated") or {}
            why = f", last ended {ended.get('finishedAt')} with {ended.get('exitCode')}" if ended else ""
            state = "ready" if status["ready"] else f"not ready {json.dumps(status.get('state'))}"
            yield f"{pod['metadata']['name']}: {state}, {status['restartCount']} restarts{why}"


def _log(client: Client, name: str, lines: int = 30) -> Iterable[str]:
    """The last lines of a program's replicas that are warnings or worse, or no log lines at all but a traceback."""
    label = f"app.kubernetes.io/name={name}"
    text = client.kubectl("-n", SYSTEM, "logs", "-l", label, "--tail=1000", "--max-log-requests=20", check=False)
    return [it for line in text.splitlines() if (it := _complaint(line))][-lines:]


def _complaint(line: str) -> str:
    try:
        said = dict(json.loads(line))
    except ValueError:
        return line
    if said.get("level") in ("debug", "info"):
        return ""
    rest = {key: it for key, it in said.items() if key not in ("timestamp", "level", "event", "component")}
    return f"{str(said.get('timestamp'))[11:23]} {said.get('level')} {said.get('event')} {json.dumps(rest)}"


def _left(client: Client) -> Iterable[str]:
    for node, those in nodes.left(client).items():
        yield f"{node}: {', '.join(sorted({it.rpartition('/')[2] for it in those}))}"
