"""Revisions of nodes grow, and names of nodes that are gone are forgotten."""

from controller.state.knownnodes import NodeRevisions


def test_names_of_nodes_that_are_gone_are_forgotten_and_a_revision_never_comes_again() -> None:
    revisions, seen = NodeRevisions(), set()
    for number in range(5000):
        name = f"auto-{number}"
        revisions.advance(name)
        seen.add(revisions.revision_of("n1"))
        revisions.advance("n1")
        revisions.keep({"n1"})
    assert len(seen) == 5000
    assert revisions.revision_of("auto-0") == (0, 0)
    assert revisions.revision_of("auto-4999") > (0, 0)
    revisions.advance("auto-0")
    assert revisions.revision_of("auto-0") > (0, 5000)
