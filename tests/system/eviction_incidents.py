"""What keeps pods from being evicted, in a history: webhooks of others, that they are static, claims of PodGroups."""

import random
from contextlib import suppress
from typing import Final

from driver.kube.api import PODS, RESOURCE_CLAIMS, AlreadyExists, NotFound, Object
from driver.kube.objects import claim_name, is_deleting, is_terminal, pod_phase
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.eviction_checks import MIRROR
from tests.simulation.eviction_webhooks import ANSWERS, FOR_EVER, Webhook
from tests.system.objects import NAMESPACE, pod

SEEDS: Final = 0.3
"""In how many histories there are any."""
HAPPENS: Final = 0.3
"""How often something of this happens after an action, in such a history."""
WANTED: Final = ("gpu-1", "gpu-1", "gpu-2", "share-large")
MOST_STATIC: Final = 2
GROUP: Final[Object] = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": "uid-train"}


class EvictionIncidents:
    """The incidents of one seed, none in most. They follow from numbers of their own: other histories stay the same."""

    def __init__(self, seed: int, cluster: SimulatedCluster):
        # Of all draws one in which the histories have none that written changes are recorded with.
        self._random = random.Random(f"pods that are not evicted 5 in {seed}")
        self._cluster = cluster
        self._api = cluster.user
        self.happen = self._random.random() < SEEDS
        """Whether there are any."""
        self._count = 0

    def act(self) -> None:
        """Perhaps make a webhook or a static pod, or have a PodGroup use the claim of a pod."""
        if not self.happen or self._random.random() >= HAPPENS:
            return
        with suppress(NotFound, AlreadyExists):
            self._random.choice((self._refuse, self._refuse, self._make_static, self._share_with_group))()

    def pass_by(self) -> None:
        """Only those webhooks are left that stay for ever."""
        webhooks = self._cluster.evictions.webhooks
        webhooks.known = [one for one in webhooks.known if one.until == FOR_EVER]

    def undo(self) -> None:
        """Nobody refuses evictions any more, and the PodGroup ends: first its pods, then its hold on their claims."""
        self._cluster.evictions.webhooks.known.clear()
        for claim in self._grouped():
            for user in claim["status"]["reservedFor"]:
                with suppress(NotFound):
                    self._api.delete(PODS, user["name"], NAMESPACE, uid=user["uid"])
        self._cluster.settle()
        for claim in self._grouped():
            rest = [one for one in claim["status"]["reservedFor"] if one != GROUP]
            self._reserve(claim["metadata"]["name"], rest)

    def _grouped(self) -> list[Object]:
        claims = self._api.list(RESOURCE_CLAIMS).items
        return [one for one in claims if GROUP in ((one.get("status") or {}).get("reservedFor") or ())]

    def _refuse(self) -> None:
        chance, now = self._random, self._cluster.clock.monotonic()
        digits = frozenset(chance.sample("0123456789", chance.choice((2, 5))))
        webhook = Webhook(
            chance.choice(ANSWERS),
            'admission webhook "guard.example.com" denied the request: these pods stay',
            lambda name: name[-1:] in digits,
            since=now,
            until=chance.choice((now + chance.uniform(1, 300), FOR_EVER)),
            tries=chance.random() < 0.7,
        )
        self._cluster.evictions.webhooks.known.append(webhook)
        self._cluster.log.note("api", f"answers {webhook.answer} to evictions of {sorted(digits)} to {webhook.until}")

    def _make_static(self) -> None:
        if self._count < MOST_STATIC:
            self._count += 1
            made = pod(f"static-{self._count}", template_name=self._random.choice(WANTED))
            made["metadata"] |= {"labels": {"app": "static"}, "annotations": {MIRROR: "checksum"}}
            self._api.create(PODS, made)
            self._cluster.advance(self._random.choice((1.0, 20.0)))

    def _share_with_group(self) -> None:
        """As kube-scheduler does for a pod of a PodGroup that has the claim, too."""
        running = [one for one in self._api.list(PODS).items if pod_phase(one) == "Running" and not is_deleting(one)]
        pods = [one for one in running if not is_terminal(one) and one["spec"].get("resourceClaims")]
        if pods:
            chosen = self._random.choice(pods)
            name = claim_name(chosen, chosen["spec"]["resourceClaims"][0])
            claim = self._api.get(RESOURCE_CLAIMS, name, NAMESPACE)
            users = claim["status"].get("reservedFor") or []
            if users and GROUP not in users:
                self._reserve(name, [*users, GROUP])

    def _reserve(self, claim: str, users: list[Object]) -> None:
        status = {"status": {"reservedFor": users}}
        self._api.patch(RESOURCE_CLAIMS, claim, status, namespace=NAMESPACE, subresource="status")
