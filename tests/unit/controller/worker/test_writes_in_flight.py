"""What is being written is not decided about."""

from controller.worker.writes_in_flight import WritesInFlight
from controller.writing import WriteSequence
from driver.kube.api import PODS
from driver.observe import logger
from tests.simulation.clock import VirtualClock
from tests.unit.controller.filled_state import FilledState


class Accepted:
    """Writes without an answer."""

    def submit(self, sequence: WriteSequence) -> None:
        """Nothing is carried out."""

    def report(self, key: object, sequence: WriteSequence) -> None:
        """Nothing is carried out."""


def test_a_pod_waits_for_writes_of_the_claims_of_an_earlier_pod_of_its_name() -> None:
    in_flight = WritesInFlight(FilledState().state, Accepted(), VirtualClock(), logger("test"), 10)
    in_flight.submit(WriteSequence(("pod", "default/a"), ()))
    assert in_flight.is_busy([(PODS, "default/a")])
    assert not in_flight.is_busy([(PODS, "default/b")])
