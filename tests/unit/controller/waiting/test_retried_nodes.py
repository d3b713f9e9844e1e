"""Pods of a shape that were refused ask kube-scheduler about different nodes."""

from controller.waiting import NodesBeingRetried


def refused(*pods: str, shape: str = "s") -> NodesBeingRetried:
    questions = NodesBeingRetried()
    for pod in pods:
        questions.placed(pod, shape, "n1")
    for pod in pods:
        questions.refused(pod)
    return questions


def test_pods_that_were_never_refused_share_nodes() -> None:
    questions = NodesBeingRetried()
    for pod in "ab":
        questions.placed(pod, "s", "n1")
    assert questions.of_others("b") == ()


def test_a_refused_pod_avoids_the_nodes_that_others_of_its_shape_are_tried_on() -> None:
    questions = refused("a", "b", "c")
    questions.placed("a", "s", "n2")
    assert questions.of_others("a") == ()
    assert questions.of_others("b") == ("n2",)
    questions.placed("b", "s", "n3")
    assert questions.of_others("c") == ("n2", "n3")


def test_a_pod_of_another_shape_is_no_matter() -> None:
    questions = refused("a")
    questions.placed("a", "s", "n2")
    questions.placed("b", "t", "n1")
    questions.refused("b")
    assert questions.of_others("b") == ()


def test_an_answer_ends_the_question() -> None:
    questions = refused("a", "b", "c")
    questions.placed("a", "s", "n2")
    questions.placed("b", "s", "n3")
    questions.refused("a")
    questions.settled("b")
    assert questions.of_others("c") == ()


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    questions = refused("a", "b")
    for pod in "ab":
        questions.settled(pod)
    assert vars(questions) == {"_shapes": {}, "_asked": {}}
