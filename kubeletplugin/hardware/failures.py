"""How cards failed, in a file that outlives the program and counts until the machine is started again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driver.files import Files
from driver.observe import Logger
from kubeletplugin.hardware.port import Health


@dataclass(frozen=True, slots=True)
class Failure:
    """How a card failed. Times are seconds of ``Clock.monotonic``, which all programs of one boot share."""

    health: Health
    times: int
    """How often it failed; a failure long after the last one counts as the first."""
    working_since: float | None = None
    """Since when it has worked again without a break; None while it does not."""


class FailureFile:
    """The failures of a node's cards, by uuid. A file that cannot be read is one without failures.

    Args:
        boot_id: of this boot of the machine; what another boot has written does not count.
    """

    def __init__(self, files: Files, path: str, boot_id: str, log: Logger):
        self._files = files
        self._path = path
        self._boot_id = boot_id
        self._log = log

    def load(self) -> dict[str, Failure]:
        """The failures that were saved last."""
        try:
            raw: Any = json.loads(self._files.read(self._path) or b"{}")
            if raw.get("bootId") != self._boot_id:
                return {}
            return {key: _failure_from(entry) for key, entry in raw["failures"].items()}
        except OSError as error:
            self._log.warning("health of before cannot be read", path=self._path, reason=str(error))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._log.warning("health of before cannot be decoded", path=self._path, reason=repr(error))
        return {}

    def save(self, failures: Mapping[str, Failure]) -> None:
        """Replace them; without any there is no file. If it cannot be written, they count until the program ends."""
        raw = {"bootId": self._boot_id, "failures": {key: _failure_to(each) for key, each in failures.items()}}
        try:
            if failures:
                self._files.write(self._path, json.dumps(raw).encode() + b"\n", may_lose="content")
            else:
                self._files.remove(self._path)
        except OSError as error:
            self._log.warning("health cannot be stored", path=self._path, reason=str(error))


def _failure_to(failure: Failure) -> dict[str, Any]:
    health = failure.health
    return {
        "state": health.state,
        "message": health.message,
        "code": health.code,
        "recovery": health.recovery,
        "times": failure.times,
        "workingSince": failure.working_since,
    }


def _failure_from(raw: Mapping[str, Any]) -> Failure:
    since = raw["workingSince"]
    health = Health(raw["state"], str(raw["message"]), str(raw["code"]), raw["recovery"])
    return Failure(health, int(raw["times"]), None if since is None else float(since))
