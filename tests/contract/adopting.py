"""A real API server with the policies that adopt pods, and a namespace for each source."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import yaml

from charts import built
from charts.adoption import CLASSES, FOLDER
from driver.adoption import PLAIN, SOURCES
from testclusters.controlplane import ControlPlane
from tests.adoption_cases import claims_of
from tests.contract.identity import Identity, Object, Response, eventually

PLAIN_CLASSES = {
    "amd.com/gpu": "gpu.example.com",
    "example.com/fpga": "fpga.example.com",
    "deviceclass.resource.kubernetes.io/dranet.net": "dranet.net",
}
GATE = {"name": "lode.dev/allocation"}


def adopting_objects(*components: str, classes: Mapping[str, str] = PLAIN_CLASSES) -> list[Object]:
    """What kustomize builds of the default flavor with components, and the classes of the source ``plain``."""
    objects = built("controller-allocated", *components)
    for obj in objects:
        for variable in obj.get("spec", {}).get("variables", []):
            if variable["name"] == CLASSES:
                variable["expression"] = json.dumps([f"{resource}={name}" for resource, name in classes.items()])
    return objects


@contextmanager
def adopting(*, flags: Mapping[str, list[str]] | None = None) -> Iterator[Identity]:
    """The administrator of a control plane with all sources, opted in by namespaces that are called like them."""
    with ControlPlane(components=(), flags=flags) as plane:
        folders = [f"{FOLDER}/{name}" for name in SOURCES]
        plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(adopting_objects(*folders)))
        admin = Identity.admin(plane)
        runtime = {"metadata": {"name": "ascend"}, "handler": "runc"}
        admin.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime).must()
        for name in (*SOURCES, "none"):
            labels = {f"lode.dev/adopt-{name}": "on"} if name in SOURCES else {}
            admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}).must()
        for name in SOURCES:
            eventually(f"pods of {name} are adopted", partial(in_force, admin, name, namespace=name), 60)
        yield admin


def in_force(admin: Identity, source: str, *, namespace: str) -> bool:
    """Whether pods of the namespace are adopted, gated and, if they ask for too much, refused."""
    resource = next(iter(PLAIN_CLASSES if source == PLAIN else SOURCES[source].resources))
    container = {"name": "main", "image": "none", "resources": {"limits": {resource: 1}}}
    bad = {**container, "resources": {"limits": {resource: 99_999_999_999}}}
    adopted, refused = (
        create(admin, namespace, {"metadata": {"name": "probe"}, "spec": {"containers": [one]}})
        for one in (container, bad)
    )
    return adopted.ok and bool(claims_of(adopted.body)) and gated(adopted.body) and refused.status == 403


def create(admin: Identity, namespace: str, pod: Object, *, store: bool = False) -> Response:
    """Create a pod as a test, unless it is to be stored."""
    return admin.request("POST", f"/api/v1/namespaces/{namespace}/pods{'' if store else '?dryRun=All'}", pod)


def adopts(admin: Identity, namespace: str, pod: Object) -> bool:
    """Whether a pod of the namespace gets claims. An API server that does not know all policies yet may refuse it."""
    answer = create(admin, namespace, pod)
    return answer.ok and bool(claims_of(answer.body))


def gated(pod: Object) -> bool:
    """Whether the pod waits for the controller."""
    return GATE in pod["spec"].get("schedulingGates", [])
