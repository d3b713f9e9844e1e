"""The version of Kubernetes of a history, drawn from its seed, and the controllers of that version."""

import random
from collections.abc import Callable, Mapping
from functools import partial

from driver.clock import Clock
from driver.kube.api import Api
from memoryapi import V1_37, V1_38
from memoryapi.versions import Version
from simulation.kubernetes.admission import CLAIM_CONTROLLER
from simulation.kubernetes.component import FakeComponent
from simulation.kubernetes.garbage_collector import GarbageCollector
from simulation.kubernetes.job_controller import JobController
from simulation.kubernetes.resource_claim_controller import ResourceClaimController


def drawn(seed: int) -> Version:
    """The version of a seed. It takes nothing from the other draws of the history."""
    return random.Random(f"kubernetes of {seed}").choice((V1_37, V1_38))


def controllers(kubernetes: Version) -> Mapping[str, Callable[[Api, Clock], FakeComponent]]:
    """The controllers of kube-controller-manager, by name."""
    claims = partial(ResourceClaimController, reserves_for_ended=kubernetes < V1_38)
    return {CLAIM_CONTROLLER: claims, "job-controller": JobController, "garbage-collector": GarbageCollector}
