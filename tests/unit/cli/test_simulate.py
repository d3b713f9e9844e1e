"""What ``lode simulate`` says of objects is what the controller would do with them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.__main__ import main as lode
from cli.shipped import device_classes
from driver.kube.api import Object
from tests.unit.cli.cluster import (
    EXAMPLES,
    GATE,
    Answer,
    allocated,
    claim,
    node,
    pod,
    simulation,
    slices,
    stored,
    template,
)

Simulate = Callable[..., Answer]
NEAR = {"apiVersion": "lode.dev/v1alpha1", "kind": "PlacementConfig", "policy": "binpack"}
H100 = 'device.attributes["lode.dev"].type == "H100"'


@pytest.fixture
def simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Simulate:
    def call(*objects: Object, options: tuple[str, ...] = ()) -> Answer:
        return simulation(capsys, tmp_path, *objects, options=options)

    return call


def test_every_example_is_placed_on_the_cards_it_is_for(simulated: Simulate) -> None:
    published = [
        *slices("gpu-1", "h100x8", ib_cluster="ib-a"),
        *slices("gpu-2", "a100x4", ib_cluster="ib-b"),
        *slices("n", "ascend310px4"),
    ]
    answer = simulated(*published, options=("-f", str(EXAMPLES)))
    assert answer.status == 0, answer.out
    files = {path.stem for path in EXAMPLES.iterdir() if path.stem != "kustomization"}
    pods = answer.json["pods"]
    jobs = {"job-of-four", "gang-in-one-ib-cluster"}
    assert {name for one in pods if not (name := one["name"]).startswith((*jobs,))} == files - jobs
    assert [sum(one["name"].startswith(job) for one in pods) for job in jobs] == [4, 4]
    assert {one["node"] for one in pods} == {"gpu-1", "gpu-2", "n"}
    assert answer.placed()["card-by-index"] == ["gpu-2/lode.dev/gpu-3"]
    assert len(answer.placed()["two-cards-one-numa-node"]) == 2


def test_a_pod_gets_what_is_left_by_those_before_it(simulated: Simulate) -> None:
    """Two cards: the pods that exist come first, oldest first; those that do not exist yet by name."""
    answer = simulated(
        *slices("g", "t4x2", ("whole",)),
        template("card"),
        pod("b", of="card"),
        pod("a", of="card"),
        stored(pod("young", of="card"), created="2027-01-15T08:00:01Z"),
        stored(pod("old", of="card", schedulingGates=[{"name": GATE}]), created="2027-01-15T08:00:00Z"),
    )
    assert answer.status == 1
    assert list(answer.placed().items()) == [
        ("old", ["g/lode.dev/gpu-0"]),
        ("young", ["g/lode.dev/gpu-1"]),
        ("a", []),
        ("b", []),
    ]
    reason, message = answer.reason("a")
    assert reason == "Unallocatable"
    assert "2 in use" in message
    (group,) = answer.json["pods"][2]["reasons"]["groups"]
    assert (group["nodes"], group["named"]) == (1, ["g"])
    assert [(one["count"], one["by"]) for one in group["devices"]["requests"][0]["excluded"]] == [(2, "inUse")]


def test_pods_that_share_a_claim_of_another_driver_are_both_placed(simulated: Simulate) -> None:
    channel = {"driver": "net.example.com", "allNodes": True, "devices": [{"name": "channel-0"}]}
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    answer = simulated(
        *slices("g1", "t4x2", ("whole",)),
        *slices("g2", "t4x2", ("whole",)),
        {**claim("net"), "kind": "ResourceSlice", "spec": {**channel, "pool": pool}},
        {**claim("net"), "kind": "DeviceClass", "spec": {"selectors": [_of("net.example.com")]}},
        {**claim("gpu.lode.dev"), "kind": "DeviceClass", "spec": {"selectors": [_of("lode.dev")]}},
        claim("shared", "net"),
        template("cards", count=2),
        pod("a", "shared", of="cards"),
        pod("b", "shared", of="cards"),
    )
    assert answer.status == 0, answer.out
    assert {one["node"] for one in answer.json["pods"]} == {"g1", "g2"}


def _of(driver: str) -> Object:
    return {"cel": {"expression": f'device.driver == "{driver}"'}}


def test_the_keys_of_a_placed_pod_are_those_of_the_documentation(simulated: Simulate) -> None:
    share = {"requests": {"memory": "4Gi", "cores": "25"}}
    answer = simulated(
        *slices("g", "t4x2"), template("part", "gpu-share.lode.dev", capacity=share), pod("p", of="part")
    )
    (told,) = answer.json["pods"]
    name = told["claims"][0].pop("name")
    assert name.startswith("p-t-")
    assert told == {
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "result": "placed",
        "node": "g",
        "claims": [
            {
                "entry": "t",
                "template": "part",
                "state": "chosen",
                "devices": [
                    {
                        "request": "r",
                        "driver": "lode.dev",
                        "pool": "g/lode.dev",
                        "device": "gpu-0-share",
                        "consumedCapacity": {"memory": "4Gi", "cores": "25", "slots": "1"},
                    }
                ],
            }
        ],
    }
    assert {name: answer.json[name] for name in ("claims", "placed", "waiting")} == {
        "claims": [],
        "placed": 1,
        "waiting": 0,
    }


def test_a_claim_that_no_pod_uses_is_asked_for_alone_after_all_pods(simulated: Simulate) -> None:
    answer = simulated(*slices("g", "t4x2", ("whole",)), claim("idle"), claim("more"), claim("used"), pod("p", "used"))
    assert answer.status == 1
    assert answer.placed() == {"p": ["g/lode.dev/gpu-0"], "idle": ["g/lode.dev/gpu-1"], "more": []}
    assert [one["kind"] for one in answer.json["claims"]] == ["ResourceClaim", "ResourceClaim"]


def test_what_is_allocated_stays_so_and_counts(simulated: Simulate) -> None:
    held = allocated(claim("held"), "g/gpu-0", "runs")
    running = stored(pod("runs", "held", nodeName="g"), phase="Running")
    answer = simulated(*slices("g", "t4x2", ("whole",)), held, running, claim("new"), pod("p", "new"))
    assert answer.placed() == {"p": ["g/lode.dev/gpu-1"]}


def test_a_pending_pod_whose_claims_are_allocated_is_told_of(simulated: Simulate) -> None:
    held = allocated(claim("held"), "g/gpu-1", "p")
    answer = simulated(*slices("g", "t4x2"), held, stored(pod("p", "held", schedulingGates=[{"name": GATE}])))
    (told,) = answer.json["pods"]
    assert (told["result"], told["node"], told["claims"][0]["state"]) == ("allocated", "g", "held")
    assert told["claims"][0]["reservedFor"] == ["pods/p"]


def test_a_share_that_is_held_keeps_its_id_and_a_new_one_has_none(simulated: Simulate) -> None:
    share = "11111111-0000-4000-8000-000000000001"
    amounts = {"memory": "1Gi", "cores": "0", "slots": "1"}
    held = allocated(claim("held", "gpu-share.lode.dev"), "g/gpu-0-share", "p", shareID=share, consumedCapacity=amounts)
    part = {"requests": {"memory": "1Gi"}}
    both = stored(pod("p", "held", "new"))
    answer = simulated(*slices("g", "t4x2"), held, claim("new", "gpu-share.lode.dev", capacity=part), both)
    (told,) = answer.json["pods"]
    assert [claim["state"] for claim in told["claims"]] == ["held", "chosen"]
    assert [claim["devices"][0].get("shareID") for claim in told["claims"]] == [share, None]


def test_a_pod_that_was_placed_where_it_cannot_run_is_placed_anew(simulated: Simulate) -> None:
    """What the controller would take back is taken back, said, and may be given to another."""
    held = allocated(claim("held"), "a/gpu-0", "moves")
    moves = stored(pod("moves", "held", cpu="4", schedulingGates=[{"name": GATE}]))
    waits = pod("waits", "fixed", cpu="100m", nodeSelector={"of": "a"})
    cards = [*slices("a", "t4x2", ("whole",)), *slices("b", "t4x2", ("whole",))]
    other = allocated(claim("other"), "a/gpu-1", "elsewhere")
    answer = simulated(
        node("a", cpu="2", of="a"),
        node("b"),
        *cards,
        held,
        other,
        moves,
        waits,
        claim("fixed", expression=H100[:-7] + '"T4"'),
    )
    assert answer.status == 0, answer.out
    assert answer.placed() == {"moves": ["b/lode.dev/gpu-0"], "waits": ["a/lode.dev/gpu-0"]}
    assert [one["claims"][0]["state"] for one in answer.json["pods"]] == ["chosen", "chosen"]
    (back,) = answer.json["pods"][0]["takenBack"]
    assert back["node"] == "a"
    assert "insufficient cpu" in back["message"]


def test_a_pod_that_kube_scheduler_refuses_goes_to_another_node(simulated: Simulate) -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no volume"}
    held = allocated(claim("held"), "a/gpu-0", "p")
    cards = [*slices("a", "t4x2", ("whole",)), *slices("b", "t4x2", ("whole",))]
    answer = simulated(node("a"), node("b"), *cards, held, stored(pod("p", "held"), conditions=[refused]))
    assert answer.placed() == {"p": ["b/lode.dev/gpu-0"]}
    assert answer.json["pods"][0]["takenBack"] == [
        {"node": "a", "message": "kube-scheduler refuses the pod there: no volume"}
    ]


def test_it_says_which_pods_the_controller_does_not_place_for_reasons_that_no_object_shows(simulated: Simulate) -> None:
    words = {
        "refused": "kube-scheduler refuses the pod on 1 node: no volume. 0 of 1 node can take the pod.",
        "held": "0 of 1 node can take the pod. 1 node: held back for a pod in another namespace, which comes first",
        "old": "0 of 1 node can take the pod. 1 node: the node is not ready",
    }
    objects: list[Object] = [node("a"), *slices("a", "a100x4", ("whole",)), *device_classes()]
    for name, message in words.items():
        said = {"type": "lode.dev/Allocated", "status": "False", "reason": "Unallocatable", "message": message}
        objects += [claim(f"c-{name}"), stored(pod(name, f"c-{name}"), conditions=[said])]
    answer = simulated(*objects)
    assert answer.placed().keys() == words.keys()
    (note,) = answer.json["notes"]
    assert note.startswith("the controller does not place 2 pods (first default/held): no object of the API says")


@pytest.mark.parametrize(
    ("objects", "reason", "says"),
    [
        ([pod("p", of="absent")], "ClaimMissing", "ResourceClaimTemplate absent"),
        ([pod("p", "absent")], "ClaimMissing", "ResourceClaim default/absent does not exist"),
        ([pod("p", "c"), claim("c", "gpux.lode.dev")], "UnknownClass", "gpux.lode.dev; did you mean 'gpu.lode.dev'?"),
        (
            [pod("p", "c", schedulingGates=[{"name": "a/b"}]), claim("c")],
            "OtherGates",
            "scheduling gates of others: a/b;",
        ),
        ([pod("p", "c", cpu="9"), claim("c"), node("g")], "Unallocatable", "insufficient cpu"),
        ([pod("p", "c"), claim("c"), node("g", ready=False)], "Unallocatable", "the node is not ready"),
        ([pod("p", "c"), claim("c", count=3)], "Impossible", "Waiting does not help"),
        ([pod("p", "c"), claim("c", count=3)], "Impossible", "wants 3 of gpu.lode.dev"),
    ],
)
def test_a_pod_that_waits_says_why_in_the_controllers_words(
    simulated: Simulate, objects: list[Object], reason: str, says: str
) -> None:
    answer = simulated(*slices("g", "t4x2"), *objects)
    assert answer.status == 1
    told, message = answer.reason("p")
    assert told == reason
    assert says in message


def test_pods_and_claims_of_other_drivers_are_left_out(simulated: Simulate) -> None:
    other = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "nic.example.com"}}
    expression = {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'nic.example.com'"}}]}}
    answer = simulated(
        *slices("g", "t4x2"),
        *device_classes(),
        {**other, **expression},
        claim("c", "nic.example.com"),
        pod("p", "c"),
        pod("none"),
        claim("alone", "nic.example.com"),
    )
    assert (answer.status, answer.placed()) == (0, {})


def test_a_pod_with_claims_of_two_drivers_is_told_which_is_whose(simulated: Simulate) -> None:
    other = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "nic.example.com"}}
    expression = {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'nic.example.com'"}}]}}
    answer = simulated(
        *slices("g", "t4x2"),
        *device_classes(),
        {**other, **expression},
        claim("c", "nic.example.com"),
        claim("d"),
        pod("p", "c", "d"),
    )
    (told,) = answer.json["pods"]
    assert [claim["state"] for claim in told["claims"]] == ["others", "chosen"]


def test_only_what_is_in_the_namespace_is_shown_but_everything_counts(simulated: Simulate) -> None:
    elsewhere = {**pod("a", of="card"), "metadata": {"name": "a", "namespace": "elsewhere"}}
    their = {**template("card"), "metadata": {"name": "card", "namespace": "elsewhere"}}
    objects = [*slices("g", "t4x2", ("whole",)), elsewhere, their, template("card"), pod("p", of="card")]
    answer = simulated(*objects, options=("-n", "team"))
    assert [(one["namespace"], one["name"]) for one in answer.json["pods"]] == [("team", "p")]
    assert answer.placed() == {"p": ["g/lode.dev/gpu-1"]}


@pytest.mark.parametrize("name", ["gpu.nvidia.com", "mig.nvidia.com"])
def test_classes_of_nvidias_driver_are_not_assumed_and_their_file_is_said(
    simulated: Simulate, tmp_path: Path, name: str
) -> None:
    """They are installed only where the setting nvidiaDraNames is on."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("nvidiaDraNames: true")
    file = "manifests/nvidia-dra-names/classes.yaml"
    published, options = slices("g", "t4x2"), ("--settings", str(settings))
    theirs = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": name}}]}
    wanted = {**claim("c"), "spec": {"devices": theirs}}
    made = {**template("t"), "spec": {"spec": {"devices": theirs}}}
    for one in (wanted, made):
        notes = simulated(*published, one, options=options).json["notes"]
        assert any(f"not among them: {name}; where nvidiaDraNames is set, {file}" in note for note in notes)
    assert not any(file in note for note in simulated(*published, claim("c"), options=options).json["notes"])
    assert not any(file in note for note in simulated(*published, *device_classes(), wanted).json["notes"])


def test_what_is_assumed_is_said(simulated: Simulate) -> None:
    notes = simulated(*slices("g", "t4x2"), claim("c"), {"apiVersion": "v1", "kind": "Secret"}).json["notes"]
    assert any("no DeviceClass in the input" in note for note in notes)
    assert any("no Node in the input: g is assumed" in note for note in notes)
    assert any("1 Secret (v1)" in note for note in notes)
    assert not simulated(*slices("g", "t4x2"), *device_classes(), node("g"), claim("c")).json["notes"]


def test_what_a_claim_hardly_means_is_noted_once(simulated: Simulate) -> None:
    small = template("small", "gpu-share.lode.dev", capacity={"requests": {"memory": "4"}})
    other = claim("other")
    for driver in ("lode.de", "gpu.example.com"):
        config = {"opaque": {"driver": driver, "parameters": {"kind": "X", "apiVersion": "y/v1"}}}
        other["spec"]["devices"].setdefault("config", []).append(config)
    given = (*slices("g", "t4x2"), *device_classes(), node("g"), small, other)
    notes = simulated(*given, pod("p", of="small"), pod("q", of="small")).json["notes"]
    assert [note.partition(": ")[2] for note in notes if "and 1 more" in note] == [
        "request r: memory 4 is 4 bytes; a unit may be missing, such as 4Gi"
    ]
    assert [note for note in notes if "and 1 more" not in note] == [
        "ResourceClaim default/other: config[0] is for the driver 'lode.de' and is ignored; did you mean 'lode.dev'?"
    ]


def test_templates_on_demand_are_made_and_a_name_that_means_nothing_is_told(simulated: Simulate) -> None:
    answer = simulated(*slices("g", "t4x2"), pod("a", of="lode.2-t4"), pod("b", of="lode.2-t5"))
    assert answer.placed() == {"a": ["g/lode.dev/gpu-0", "g/lode.dev/gpu-1"], "b": []}
    reason, message = answer.reason("b")
    assert reason == "TemplateInvalid"
    assert "'t5' is no word of such names" in message


def test_holders_that_are_not_given_are_missed(simulated: Simulate) -> None:
    running = stored(pod("runs", "held", nodeName="g"), phase="Running")
    notes = simulated(*slices("g", "t4x2"), running).json["notes"]
    assert any("Pod default/runs is on a node with ResourceClaims that are not in the input" in note for note in notes)


def test_a_device_tainted_by_a_rule_is_not_given_out(simulated: Simulate) -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": "lode.dev", "pool": "g/lode.dev", "device": "gpu-0"},
            "taint": {"key": "broken", "effect": "NoSchedule"},
        },
    }
    answer = simulated(*slices("g", "t4x2", ("whole",)), rule, claim("c"), pod("p", "c"))
    assert answer.placed() == {"p": ["g/lode.dev/gpu-1"]}


def test_the_table_shows_who_gets_what_and_who_waits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    objects = [*slices("g", "t4x2", ("whole",)), node("g"), *device_classes()]
    asks = [claim("a", count=2), claim("b"), claim("c"), pod("p", "a"), pod("q", "b")]
    answer = simulation(capsys, tmp_path, *objects, *asks, options=("-o", "table"))
    assert answer.status == 1
    shown = answer.out.splitlines()
    assert shown[:9] == [
        "NAMESPACE   POD   NODE     CLAIM   REQUEST   POOL         DEVICE      CONSUMES",
        "default     p     g        a       r         g/lode.dev   gpu-0       all of it",
        "default     p     g        a       r         g/lode.dev   gpu-1       all of it",
        "default     q     <none>   b                              <pending>",
        "",
        "NAMESPACE   NODE     CLAIM   REQUEST   POOL   DEVICE      CONSUMES",
        "default     <none>   c                        <pending>",
        "",
        "Pod default/q waits (Unallocatable):",
    ]
    assert shown[9] == "  0 of 1 node can take the pod."
    assert shown[10].startswith("  node g: claim default/b, request r: wants 1 of gpu.lode.dev, 0 of ")
    assert not answer.err


def test_nothing_to_decide_is_no_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = simulation(capsys, tmp_path, *slices("g", "t4x2"), options=("-o", "table"))
    assert answer.status == 0
    assert "Nothing waits for devices" in answer.out


def test_without_anything_to_read_the_remedy_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["simulate"]) == 2
    assert "give -f FILE" in capsys.readouterr().err


def test_a_thousand_nodes_are_one_call(simulated: Simulate) -> None:
    cards = [part for number in range(1000) for part in slices(f"n{number:03}", "h100x8", ("whole",))]
    nodes = [stored(node(f"n{number:03}")) for number in range(1000)]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    asks = {"completions": 500, "parallelism": 500, "completionMode": "Indexed"}
    pods = {"spec": {**asks, "template": {"spec": {**pod("x", of="eight")["spec"], "restartPolicy": "Never"}}}}
    answer = simulated(*map(stored, cards), *nodes, template("eight", count=8), {**job, **pods})
    assert answer.status == 0
    assert answer.json["placed"] == 500


def test_pods_are_served_by_priority_before_age(simulated: Simulate) -> None:
    cards = slices("g", "t4x2", ("whole",))
    pods = [stored(pod(name, of="t", priority=priority)) for name, priority in (("a", 0), ("b", 0), ("c", 9))]
    answer = simulated(*cards, template("t"), *pods)
    assert answer.placed() == {"c": ["g/lode.dev/gpu-0"], "a": ["g/lode.dev/gpu-1"], "b": []}


def test_a_pod_is_told_which_linked_cards_it_gets_and_why_no_closer_ones(simulated: Simulate) -> None:
    near = {"config": [{"opaque": {"driver": "lode.dev", "parameters": NEAR}}]}
    wanted = template("pair", count=2)
    wanted["spec"]["spec"]["devices"].update(near)
    held = [stored(pod(f"h{card}", f"c{card}", nodeName="g")) for card in (2, 6)]
    before = [allocated(claim(f"c{card}"), f"g/gpu-{card}", f"h{card}") for card in (2, 6)]
    objects = [*slices("g", "v100x8"), *held, *before, wanted, pod("p", of="pair")]
    answer = simulated(*objects)
    (told,) = answer.json["pods"][-1]["closeness"]
    assert told.endswith(
        "request r: gpu-0 and gpu-3 have 2 links; gpu-2 and gpu-3 are closer (behind 1 instead of 2 PCIe switches), "
        "but gpu-2 is in use by default/c2"
    )
    assert told in simulated(*objects, options=("-o", "table")).out
    first = simulated(*slices("g", "v100x8"), wanted, pod("p", of="pair"))
    assert first.json["pods"][0]["closeness"][0].endswith(
        "gpu-2 and gpu-3 have 2 links; no other cards of the node are closer"
    )
    assert "closeness" not in simulated(*slices("g", "h100x8"), wanted, pod("p", of="pair")).json["pods"][0]
