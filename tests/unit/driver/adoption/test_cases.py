"""The pods of tests/data/adoption, and the templates that they get."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adoption import adopt, template_spec
from driver.names import Names
from tests.adoption_cases import ADOPTION_CASES, AdoptionCase, claims_of, env_of, resources_of, uses_of

_TEMPLATES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[3] / "data" / "adoption" / "templates.yaml").read_text()
)


@pytest.mark.parametrize("case", ADOPTION_CASES, ids=str)
def test_a_pod_becomes_what_is_expected(case: AdoptionCase) -> None:
    """Or it is refused as it is."""
    pod = case.written()
    adopted = adopt(pod, case.table)
    assert {it.field for it in adopted.refused} == set(case.refused)
    for told, words in ((adopted.refused, case.refused), (adopted.noted, case.warned)):
        for field, remedy in words.items():
            assert any(it.field.startswith(field) and remedy in it.remedy for it in told), (field, told)
    if case.refused:
        assert adopted.pod == pod
        return
    assert len(adopted.noted) == len(case.warned)
    assert adopted.templates == claims_of(adopted.pod) == case.claims
    assert uses_of(adopted.pod) == case.uses
    assert env_of(adopted.pod) == case.env
    assert not case.table.taken(resources_of(adopted.pod))
    assert adopted.pod["spec"].get("schedulerName", "default-scheduler") == "default-scheduler"


def test_there_is_a_case_for_each_vector_and_error() -> None:
    """V01 to V33, and E01 to E11."""
    found = {case.case.split()[0] for case in ADOPTION_CASES}
    assert {*(f"V{number:02}" for number in range(1, 34)), *(f"E{number:02}" for number in range(1, 12))} <= found


@pytest.mark.parametrize("name", sorted({name for case in ADOPTION_CASES for name in case.claims.values()}))
def test_the_template_of_a_name_wants_what_is_expected(name: str) -> None:
    """Requests, constraints and parameters."""
    assert template_spec(name, Names()) == {"spec": {"devices": _TEMPLATES[name]}}
