"""What kind is told to create."""

import pytest

from testclusters.lifecycle import kind_configuration


@pytest.mark.parametrize(
    ("pod_groups", "gates", "served"),
    [
        (False, {}, {}),
        (
            True,
            {"GenericWorkload": True, "DRAWorkloadResourceClaims": True},
            {"api/alpha": "true", "api/beta": "true"},
        ),
    ],
)
def test_pod_groups_of_kubernetes_are_served_only_if_asked_for(
    pod_groups: bool, gates: dict[str, bool], served: dict[str, str]
) -> None:
    made = kind_configuration(built_here=True, pod_groups=pod_groups)
    assert (made["featureGates"], made["runtimeConfig"]) == (gates, served)
