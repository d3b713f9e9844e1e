"""Who writes objects by a version of the API that Kubernetes 1.38 does not serve. Pure."""

from dataclasses import dataclass
from typing import Final

from cli.doctor.findings import Finding, ok
from driver.kube.api import Object, Resource
from driver.kube.objects import object_key
from driver.limits import bounded

GONE: Final = Resource("resource.k8s.io", "v1beta1", "resourceslices", "ResourceSlice", namespaced=False)
"""A kind in the version of the API that 1.38 does not serve."""
_CHECK: Final = "API clients"
_MOST: Final = 20
"""Clients that are named."""


@dataclass(slots=True)
class _Client:
    objects: int
    example: str
    last: str
    """When it wrote last, RFC 3339 in UTC; "" if no object says it."""


class Clients:
    """Gathers from the managed fields of objects who has written them by the version that is gone."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._others = 0

    def add(self, subject: str, obj: Object) -> None:
        """Take what an object says of those who wrote it."""
        for entry in obj["metadata"].get("managedFields") or ():
            if entry.get("apiVersion") != GONE.api_version:
                continue
            name, time = bounded(str(entry.get("manager") or "?"), 60), str(entry.get("time") or "")
            known = self._clients.get(name)
            if known is not None:
                known.objects, known.last = known.objects + 1, max(known.last, time)
            elif len(self._clients) < _MOST:
                self._clients[name] = _Client(1, f"{subject} {object_key(obj)}", time)
            else:
                self._others += 1

    def findings(self, *, served: bool) -> list[Finding]:
        """What is found, where the version is ``served`` now; where it is not, nobody can be using it."""
        subject = GONE.api_version
        if not served:
            return [ok(_CHECK, subject, "is not served here either, so nobody uses it")]
        found = [
            Finding(
                "failed",
                _CHECK,
                name,
                f"writes by {subject}, which 1.38 does not serve: {client.objects} objects, such as {client.example}, "
                f"last at {client.last or 'a time that is not known'}",
                f"install a version of {name} that uses resource.k8s.io/v1; if it is gone, there is nothing to do",
            )
            for name, client in sorted(self._clients.items())
        ]
        if self._others:
            message = f"{self._others} more writes by {subject}, of further clients"
            found.append(Finding("failed", _CHECK, "others", message, "update those that are named, and look again"))
        message = "is served here, and not by 1.38; who only reads by it leaves no trace in objects"
        remedy = (
            f"remove {subject} from --runtime-config of kube-apiserver, and see that everything works on; "
            "the metric apiserver_requested_deprecated_apis says whether somebody asks for it"
        )
        return [*found, Finding("warning", _CHECK, subject, message, remedy)]
