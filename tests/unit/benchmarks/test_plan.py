"""The scenarios that a command line selects."""

from benchmarks.allocation.__main__ import LOADED, SIZES, parse, plan
from benchmarks.allocation.scenario import FORMS, Form
from benchmarks.allocation.workloads import WORKLOADS


def planned(*argv: str) -> set[tuple[str, int, str, Form]]:
    rows = plan(parse(argv))
    return {(s.workload.name, s.nodes, s.in_use.rstrip("p"), form) for s, forms in rows for form in forms}


def test_every_workload_is_measured_at_a_thousand_nodes_empty_and_nearly_full_in_every_form() -> None:
    wanted = {(w.name, 1000, in_use, form) for w in WORKLOADS for in_use in ("0", "90") for form in FORMS}
    assert wanted <= planned()


def test_growth_is_measured_on_every_workload_repeated_and_with_releases() -> None:
    sizes = {w.name: [nodes for nodes in SIZES if nodes <= w.largest] for w in WORKLOADS}
    wanted = {
        (name, nodes, "0", form) for name, counts in sizes.items() for nodes in counts for form in ("repeated", "churn")
    }
    assert all(len(counts) > 1 for counts in sizes.values())
    assert wanted <= planned()


def test_the_cluster_of_the_loading_bar_is_measured() -> None:
    assert (LOADED.workload.name, 5000, "50", "repeated") in planned()


def test_only_selected_scenarios_are_measured() -> None:
    argv = ("--workloads", "mig", "--nodes", "100", "--in-use", "90", "--forms", "churn")
    assert planned(*argv) == {("mig", 100, "90", "churn")}


def test_quick_runs_the_peer_on_a_few_workloads() -> None:
    assert {nodes for _, nodes, _, _ in planned("--quick")} == {1000}
    assert {"single", "mig", "cards"} <= {name for name, *_ in planned("--quick")}
