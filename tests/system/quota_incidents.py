"""Quotas in memory and cores that an administrator sets, changes, spoils and deletes, in a history."""

import json
import random
from contextlib import suppress
from typing import Final

from driver.kube.api import RESOURCE_QUOTAS, NotFound, Object
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.quota_write_checks import LIMITS
from tests.system.objects import NAMESPACE
from tests.system.restore_incidents import RestoreIncidents

SEEDS: Final = 0.15
"""In how many histories there are quotas."""
STEADY: Final = 0.4
"""In how many of these they never change."""
HAPPENS: Final = 0.2
"""How often one changes after an action."""
NAMES: Final = ("cards", "more")
CORES: Final = ("0", "100", "100", "160", "200", "300", "500")
MEMORY: Final = ("0", "20Gi", "40Gi", "90Gi", "200Gi", "1Ti")
SPOILT: Final = ({"lode.dev/memorry": "1Gi"}, {"lode.dev/cores": "100", "lode.dev/cards": "1"})
"""Limits that the API server takes and the controller cannot understand."""


class QuotaIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster, restores: RestoreIncidents):
        self._random = random.Random(f"quotas in {seed}")
        self._cluster = cluster
        self._api = cluster.user
        # A backup brings limits back that were changed since.
        self._happen = self._random.random() < SEEDS and not restores.happen
        self._changes = self._random.random() >= STEADY
        self._past: dict[str, list[tuple[float, Object]]] = {}
        if self._happen:
            self._set(NAMES[0])

    def act(self) -> None:
        """Perhaps change a quota."""
        if not self._happen or not self._changes or self._random.random() >= HAPPENS:
            return
        name = self._random.choice(NAMES)
        self._cluster.log.note("administrator", f"changes quota {name}")
        if self._random.random() < 0.25:
            self._past.pop(name, None)
            with suppress(NotFound):
                self._api.delete(RESOURCE_QUOTAS, name, NAMESPACE)
        else:
            self._set(name)

    def undo(self) -> None:
        """Make what cannot be understood whole, so that pods can run."""
        for name, past in self._past.items():
            if past[-1][1] in SPOILT:
                self._set(name, spoils=False)

    def _set(self, name: str, *, spoils: bool = True) -> None:
        hard: Object = {}
        if self._random.random() < 0.8:
            hard["lode.dev/cores"] = self._random.choice(CORES)
        if self._random.random() < 0.5:
            hard["lode.dev/memory"] = self._random.choice(MEMORY)
        if spoils and self._changes and self._random.random() < 0.15:
            hard = self._random.choice(SPOILT)
        known = name in self._past
        past = self._past.setdefault(name, [])
        # What is spoilt allows nothing; no lower bound is checked for it.
        past.append((self._cluster.clock.monotonic(), hard))
        said = [(since, {} if limits in SPOILT else limits) for since, limits in past]
        metadata = {"name": name, "namespace": NAMESPACE, "annotations": {LIMITS: json.dumps(said)}}
        if known:
            changes = {"/metadata/annotations": metadata["annotations"], "/spec/hard": hard}
            body = [{"op": "add", "path": path, "value": value} for path, value in changes.items()]
            self._api.patch(RESOURCE_QUOTAS, name, body, namespace=NAMESPACE, patch_type="json")
        else:
            self._api.create(RESOURCE_QUOTAS, {"metadata": metadata, "spec": {"hard": hard}})
