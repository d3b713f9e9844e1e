"""Every cell of the table in docs/security.md, with the credentials that each actor has in a real cluster."""

import re
from collections.abc import Iterator
from typing import cast

import pytest

from tests.contract.identity import Response
from tests.contract.security.actions import ACTIONS
from tests.contract.security.attacked import FLAVORS, AttackedCluster, Flavor, attacked_cluster
from tests.contract.security.table import ACTORS, TABLES


@pytest.fixture(scope="module", params=FLAVORS)
def cluster(request: pytest.FixtureRequest) -> Iterator[AttackedCluster]:
    with attacked_cluster(cast("Flavor", request.param)) as cluster:
        yield cluster


def rule_of(answer: Response) -> str:
    """The rule that refused the request, in the words of the table; "yes" if it was allowed."""
    if answer.ok:
        return "yes"
    if policy := re.search(r"ValidatingAdmissionPolicy '([a-z-]+)\.lode\.dev'", answer.message):
        return policy[1]
    if 'requires resource="resourceclaims/binding"' in answer.message:
        return "binding"
    if 'requires resource="resourceclaims/driver"' in answer.message:
        return "driver"
    if re.search(
        r"can only (create|update) .*(ResourceSlice|pod status)|is not allowed to modify node", answer.message
    ):
        return "NodeRestriction"
    return "RBAC" if answer.status == 403 and " cannot " in answer.message else answer.message


@pytest.mark.parametrize("action", ACTIONS)
def test_who_may_do_it(cluster: AttackedCluster, action: str) -> None:
    cells = TABLES[cluster.flavor][action]
    answers = {name: ACTIONS[action](who) for name, who in cluster.actors.items()}
    found = {name: rule_of(answer) for name, answer in answers.items()}
    wanted = dict(zip(ACTORS[cluster.flavor], cells, strict=True))
    # Where two policies refuse, either may answer first.
    assert found.keys() == wanted.keys()
    wrong = {name: rule for name, rule in found.items() if rule not in re.split(", |: ", wanted[name])}
    assert wrong == {}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_policy_says_what_to_do_instead(cluster: AttackedCluster, action: str) -> None:
    refusals = [answer.message for answer in (ACTIONS[action](who) for who in cluster.actors.values()) if not answer.ok]
    for message in refusals:
        _, policy, words = message.partition("denied request: ")
        assert not policy or re.search(r"(; | must be | instead$)", words), message


def test_the_table_has_a_cell_for_every_action_and_actor() -> None:
    for flavor in FLAVORS:
        assert list(TABLES[flavor]) == list(ACTIONS)
        assert {len(cells) for cells in TABLES[flavor].values()} == {len(ACTORS[flavor])}
