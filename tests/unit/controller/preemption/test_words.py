"""What is said about victims: bounded, and in words that name everybody who matters."""

import pytest

from controller.preemption import Preemption, Unevicted, render
from controller.preemption.values import KeptPods
from controller.reconcile.decisions import Victim
from controller.refusal import Refusal


def victim(name: str, node: str = "n1") -> Victim:
    return Victim(f"ns/{name}", f"uid-{name}", node, 0)


def refused(why: Unevicted) -> Refusal[Unevicted]:
    return Refusal("ns/p", why)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Preemption(()), ""),
        (
            Preemption((), (victim("a"), victim("b", "n2"), victim("c"))),
            "evicting 3 pods of lower priority makes room: ns/a, ns/c on node n1; ns/b on node n2",
        ),
        (
            Preemption((), (victim("a"),), (victim("b"),), least=False),
            "evicting 1 pod of lower priority makes room: ns/a on node n1; besides 1 pod being deleted already: "
            "ns/b on node n1; whether fewer would do was not searched to the end",
        ),
        (
            Preemption((), (), (victim("b"),)),
            "1 pod being deleted already, which makes room: ns/b on node n1",
        ),
        (refused(Unevicted()), "no pod would be evicted: none holds what is missing"),
        (
            refused(Unevicted(never="its preemptionPolicy is Never")),
            "no pod would be evicted: its preemptionPolicy is Never",
        ),
        (
            refused(
                Unevicted((KeptPods("do not have a lower priority", 5, ("ns/a", "ns/b", "ns/c")),), 2, decided=False)
            ),
            "no pod would be evicted: 5 that do not have a lower priority (ns/a, ns/b, ns/c, 2 more); "
            "2 whose end makes no room; the search was cut short, so others might do",
        ),
    ],
)
def test_an_answer_in_words(answer: Preemption | Refusal[Unevicted], text: str) -> None:
    assert render(answer) == text


def test_not_more_than_eight_victims_are_named() -> None:
    text = render(Preemption((), tuple(victim(f"v{number}") for number in range(100))))
    assert text.startswith("evicting 100 pods of lower priority makes room: ns/v0, ns/v1")
    assert text.endswith("ns/v7 on node n1; 92 more")
