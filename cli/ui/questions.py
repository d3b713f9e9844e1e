"""What the page asks beside the document: why something waits, and what would become of a manifest."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cli.decisions.allowance import NO_LIMITS, Allowance, Limits
from cli.decisions.outcomes import Outcome
from cli.decisions.simulator import simulate_all
from cli.explain.run import explained
from cli.objects.checks import WORKLOADS, InputObject
from cli.objects.documents import LIVE, Documents, parse
from cli.objects.expand import wanted_pods
from cli.simulate import checked_objects, outcomes_json, outcomes_text, with_cluster
from driver.clock import Clock, SystemClock
from driver.kube.api import PODS, RESOURCE_CLAIMS, Api
from driver.names import Names
from driver.wire import Json

PASTED: Final = "manifest"
"""Stands for the name of a file in faults."""


@dataclass(frozen=True, slots=True)
class ClusterQuestions:
    """Asks a cluster with the rights of a user. Each answer reads the cluster anew.

    Attributes:
        namespace: where nothing else is said.
        limits: of a what-if.
    """

    api: Api
    names: Names
    namespace: str = "default"
    limits: Limits = NO_LIMITS
    clock: Clock = field(default_factory=SystemClock)

    def explain(self, target: str, namespace: str = "") -> Json:
        """Return what ``lode explain -o json`` prints about ``pod/NAME``, ``card/NODE/CARD`` and so on, and its text.

        Raises:
            OperatorFault: there is no such object, or it cannot be read; the message says what to do.
        """
        found = explained(self.api, target, namespace or self.namespace, self.names)
        return {**found.to_json(), "waits": found.waits, "text": found.text(self.clock.now())}

    def simulate(self, manifest: str, namespace: str = "") -> Json:
        """Return what ``lode simulate --live -o json`` prints about the pods and claims of a manifest, and its text.

        Raises:
            BadInput: the manifest cannot be used; carries every fault.
            AsksTooMuch: that takes more than ``limits``; the message says what to do.
            OperatorFault: the cluster cannot be read; the message says what to do.
        """
        documents = Documents()
        parse(manifest, PASTED, documents)
        given, notes = checked_objects(documents, namespace or self.namespace)
        allowance = Allowance(self.limits, self.clock)
        allowance.count(_asked_about(given))
        found = with_cluster(self.api, given, self.names, allowance=allowance)
        there = {(one.resource, *one.key[1:]) for one in found.objects if one.origin == LIVE}
        pods, claims = (
            [one for one in outcomes if (resource, one.namespace, one.name) not in there]
            for resource, outcomes in zip((PODS, RESOURCE_CLAIMS), simulate_all(found.snapshot), strict=True)
        )
        answer = outcomes_json(pods, claims, [*found.snapshot.notes, *notes])
        return {**answer, "text": _text(pods, claims)}


def _asked_about(given: Sequence[InputObject]) -> int:
    """How many pods and claims are decided for these objects."""
    new = sum(wanted_pods(one) for one in given if one.resource in WORKLOADS and not one.stored)
    return new + sum(one.resource in (PODS, RESOURCE_CLAIMS) for one in given)


def _text(pods: list[Outcome], claims: list[Outcome]) -> str:
    if not pods and not claims:
        return "The manifest has no pod and no claim that asks for devices and is not in the cluster already."
    return outcomes_text(pods, claims)
