"""Objects as ``kubectl get`` prints them: the same columns, states and ages."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from driver.kube.api import Object

_GAP = 3


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, three spaces apart, without spaces at the end of a line."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "".join(cell.ljust(width + _GAP) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def age(seconds: float) -> str:
    """An age as kubectl writes it: at most two units (``3s``, ``2m5s``, ``26h``).

    The steps are those of k8s.io/apimachinery/pkg/util/duration.HumanDuration.
    """
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    if whole < 60 * 2:
        return f"{whole}s"
    if minutes < 10:
        return _two_units(minutes, "m", whole % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def since_text(since: str, now: float) -> str:
    """The age at ``now`` (seconds since the epoch) of a time stamp; ``<unknown>`` if it is none."""
    try:
        return age(now - datetime.fromisoformat(since).timestamp())
    except ValueError:
        return "<unknown>"


def age_of(obj: Object, now: float) -> str:
    """Age of an object at ``now`` (seconds since the epoch)."""
    created = obj["metadata"].get("creationTimestamp")
    return age(now - datetime.fromisoformat(created).timestamp()) if created else "<unknown>"


def claim_state(claim: Object) -> str:
    """STATE of a claim, as kube-apiserver prints it: pending, or allocated and perhaps reserved; deleted."""
    status = claim.get("status") or {}
    states = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    if status.get("allocation") is None:
        return ",".join(states or ["pending"])
    return ",".join([*states, "allocated", *(["reserved"] if status.get("reservedFor") else [])])


def claims_table(claims: Iterable[Object], now: float) -> str:
    """``kubectl get resourceclaims``."""
    rows = sorted((c["metadata"]["name"], claim_state(c), age_of(c, now)) for c in claims)
    return table(("NAME", "STATE", "AGE"), rows)


def pod_status(pod: Object) -> str:
    """STATUS of a pod: its phase, unless it is gated or being deleted."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if pod["spec"].get("schedulingGates"):
        return "SchedulingGated"
    return {"Succeeded": "Completed"}.get(phase := (pod.get("status") or {}).get("phase") or "Pending", phase)


def pods_table(pods: Iterable[Object], now: float) -> str:
    """``kubectl get pods -o wide``, with the columns that concern devices."""

    def row(pod: Object) -> tuple[str, ...]:
        containers = len(pod["spec"]["containers"])
        ready = containers if pod_status(pod) == "Running" else 0
        node = pod["spec"].get("nodeName") or "<none>"
        return (pod["metadata"]["name"], f"{ready}/{containers}", pod_status(pod), age_of(pod, now), node)

    return table(("NAME", "READY", "STATUS", "AGE", "NODE"), sorted(row(pod) for pod in pods))
