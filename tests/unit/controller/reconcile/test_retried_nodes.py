"""Pods of a shape that were refused ask kube-scheduler about different nodes."""

from controller.reconcile.history import NodesBeingRetried


def refused(*pods: str, shape: str = "s") -> NodesBeingRetried:
    retried = NodesBeingRetried()
    for pod in pods:
        retried.placed(pod, shape, "n1")
    for pod in pods:
        retried.refused(pod)
    return retried


def test_pods_that_were_never_refused_share_nodes() -> None:
    retried = NodesBeingRetried()
    for pod in "ab":
        retried.placed(pod, "s", "n1")
    assert retried.of_others("b") == ()


def test_a_refused_pod_avoids_the_nodes_that_others_of_its_shape_are_tried_on() -> None:
    retried = refused("a", "b", "c")
    retried.placed("a", "s", "n2")
    assert retried.of_others("a") == ()
    assert retried.of_others("b") == ("n2",)
    retried.placed("b", "s", "n3")
    assert retried.of_others("c") == ("n2", "n3")


def test_a_pod_of_another_shape_is_no_matter() -> None:
    retried = refused("a")
    retried.placed("a", "s", "n2")
    retried.placed("b", "t", "n1")
    retried.refused("b")
    assert retried.of_others("b") == ()


def test_an_answer_ends_the_question() -> None:
    retried = refused("a", "b", "c")
    retried.placed("a", "s", "n2")
    retried.placed("b", "s", "n3")
    retried.refused("a")
    retried.settled("b")
    assert retried.of_others("c") == ()


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    retried = refused("a", "b")
    for pod in "ab":
        retried.settled(pod)
    assert vars(retried) == {"_shapes": {}, "_nodes": {}}
