"""Counts the controller's writes in the audit log of the API server; its Lease does not count."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.controlplane import ACCOUNT

_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "Metadata", "users": [ACCOUNT], "verbs": list(_WRITES)},
        {"level": "None"},
    ],
}


class AuditLog:
    """The log of one control plane, in ``folder``, which must exist."""

    def __init__(self, folder: Path):
        self._policy, self._log = folder / "policy.json", folder / "audit.log"
        self._policy.write_text(json.dumps(_POLICY))
        self._read = 0
        self._writes: Counter[str] = Counter()

    @property
    def flags(self) -> Sequence[str]:
        """The flags of kube-apiserver that make it write the log."""
        return (
            f"--audit-policy-file={self._policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-maxsize=2000",  # MB: the file is not rotated
        )

    def writes(self) -> Counter[str]:
        """The number of the controller's writes so far, by what they write, such as ``patch pods/status``."""
        if self._log.exists():
            with self._log.open("rb") as file:
                file.seek(self._read)
                for line in file:
                    if not line.endswith(b"\n"):  # being written
                        break
                    self._read += len(line)
                    self._writes[_written(json.loads(line))] += 1
        return self._writes.copy()


def _written(entry: dict[str, dict[str, str]]) -> str:
    target = entry["objectRef"]
    subresource = f"/{target['subresource']}" if "subresource" in target else ""
    return f"{entry['verb']} {target['resource']}{subresource}"
