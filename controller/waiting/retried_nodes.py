"""The nodes where kube-scheduler is trying pods that it refused before. Pure."""

from collections.abc import Hashable


class NodesBeingRetried:
    """The pods that were refused and placed anew, by shape, until they are bound.

    A node is retried for one pod of a shape at a time: if it refuses one, it likely refuses the others, too. If it
    takes one, required anti-affinity may rule it out for the others. So pods of a Deployment that were refused together
    go to different nodes.
    """

    def __init__(self) -> None:
        self._shapes: dict[str, Hashable] = {}
        self._nodes: dict[Hashable, dict[str, str]] = {}

    def placed(self, pod: str, shape: Hashable, node: str) -> None:
        """Note that the pod has devices on the node."""
        self._shapes[pod] = shape
        retried = self._nodes.get(shape, {})
        if pod in retried:
            retried[pod] = node

    def refused(self, pod: str) -> None:
        """Note that kube-scheduler refused the pod, and that its devices were taken back."""
        if (shape := self._shapes.get(pod)) is not None:
            self._nodes.setdefault(shape, {})[pod] = ""

    def settled(self, pod: str) -> None:
        """Forget the pod: it is bound, or is gone."""
        shape = self._shapes.pop(pod, None)
        retried = self._nodes.get(shape, {})
        retried.pop(pod, None)
        if not retried:
            self._nodes.pop(shape, None)

    def of_others(self, pod: str) -> tuple[str, ...]:
        """Return the nodes where other pods of the shape are placed, if the pod was refused before, as they were."""
        retried = self._nodes.get(self._shapes.get(pod), {})
        if pod not in retried:
            return ()
        return tuple(dict.fromkeys(node for other, node in retried.items() if node and other != pod))
