"""The rights of the page in the cluster are those that it uses, and its container could not use more."""

from itertools import product

from cli.ui.access import TOKEN_REVIEWS
from cli.ui.following import FOLLOWED
from cli.ui.run import PAGE
from driver.kube.api import ACCESS_REVIEWS, RESOURCE_SLICES, Object
from tests.unit.manifests.test_manifests import MANIFESTS, objects

Right = tuple[str, str, str]
"""Group, plural and verb."""


def role(name: str) -> set[Right]:
    found = (obj for obj in objects(MANIFESTS / "ui" / "ui-rbac.yaml") if obj["kind"] == "ClusterRole")
    (wanted,) = (obj for obj in found if obj["metadata"]["name"] == name)
    return {right for rule in wanted["rules"] for right in product(rule["apiGroups"], rule["resources"], rule["verbs"])}


def test_the_page_may_follow_what_it_follows_and_ask_who_users_are() -> None:
    followed = {(one.group, one.plural, verb) for one in FOLLOWED for verb in ("list", "watch")}
    reviews = {(one.group, one.plural, "create") for one in (TOKEN_REVIEWS, ACCESS_REVIEWS)}
    granted = role("lode-ui")
    missing = sorted((followed | reviews) - granted)
    assert not missing, f"manifests/ui/ui-rbac.yaml: add {missing} (group, resource, verb) to lode-ui; then make chart"
    plurals = {right[1:] for right in followed | reviews}
    assert {right[1:] for right in granted} == plurals
    assert {right[0] for right in granted} == {right[0] for right in followed | reviews}


def test_users_of_the_page_are_those_who_may_list_slices() -> None:
    assert role("lode-ui-user") == {(RESOURCE_SLICES.group, RESOURCE_SLICES.plural, "list")}


def test_the_role_of_users_is_bound_to_nobody() -> None:
    bindings = [obj for obj in objects(MANIFESTS / "ui" / "ui-rbac.yaml") if obj["kind"].endswith("Binding")]
    assert [obj["roleRef"]["name"] for obj in bindings] == ["lode-ui"]


def deployment() -> Object:
    found: list[Object] = [obj for obj in objects(MANIFESTS / "ui" / "ui.yaml") if obj["kind"] == "Deployment"]
    return found[0]


def test_the_service_and_the_probes_reach_the_port_that_it_listens_on() -> None:
    (container,) = deployment()["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    command = container["command"]
    assert command[:2] == ["lode", "ui"]
    assert command[command.index("--listen") + 1].endswith(f":{port['containerPort']}")
    (service,) = (obj for obj in objects(MANIFESTS / "ui" / "ui.yaml") if obj["kind"] == "Service")
    assert service["spec"]["selector"].items() <= deployment()["spec"]["template"]["metadata"]["labels"].items()
    assert {one["targetPort"] for one in service["spec"]["ports"]} == {port["name"]}


def test_the_page_has_files() -> None:
    assert (PAGE / "index.html").is_file()
