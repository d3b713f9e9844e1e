"""On which nodes kube-scheduler is being asked about pods that it has refused before. Pure."""

from collections.abc import Hashable


class OpenQuestions:
    """Pods that were refused and placed anew, by shape, until they are bound.

    A node is asked about one pod of a shape at a time: if it refuses one, it likely refuses the others, too, and if it
    takes one, required anti-affinity may rule it out for the others. So pods of a Deployment that were refused together
    go to different nodes.
    """

    def __init__(self) -> None:
        self._shapes: dict[str, Hashable] = {}
        self._asked: dict[Hashable, dict[str, str]] = {}

    def placed(self, pod: str, shape: Hashable, node: str) -> None:
        """The pod has devices on the node."""
        self._shapes[pod] = shape
        asked = self._asked.get(shape, {})
        if pod in asked:
            asked[pod] = node

    def refused(self, pod: str) -> None:
        """kube-scheduler refused the pod, and its devices were taken back."""
        if (shape := self._shapes.get(pod)) is not None:
            self._asked.setdefault(shape, {})[pod] = ""

    def settled(self, pod: str) -> None:
        """The pod is bound, or is gone."""
        shape = self._shapes.pop(pod, None)
        asked = self._asked.get(shape, {})
        asked.pop(pod, None)
        if not asked:
            self._asked.pop(shape, None)

    def asked_for_others(self, pod: str) -> tuple[str, ...]:
        """The nodes where other pods of the shape are placed, if all of them were refused before."""
        asked = self._asked.get(self._shapes.get(pod), {})
        if pod not in asked:
            return ()
        return tuple(dict.fromkeys(node for other, node in asked.items() if node and other != pod))
