"""The programs are replaced by those of the previous commit and back, while pods hold claims."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testclusters.commands import CommandFailed
from testclusters.images import PREVIOUS, previous_source
from testclusters.kind import KindCluster
from tests.e2e import flavors, nodes
from tests.e2e.client import Client, Object, eventually_none
from tests.e2e.controller import check_usage_matches_claims
from tests.e2e.pods import pod, request, template
from tests.e2e.watcher import Watcher

PROFILE = 'device.attributes["lode.dev"].profile == '
REQUESTS = {
    "whole": request("gpu"),
    "share": request("gpu-share", memory="8Gi"),
    "mig": request("mig", selector=f'{PROFILE}"1g.5gb"'),
    "npu": request("npu"),
    "vnpu": request("vnpu", selector=f'{PROFILE}"vir02"'),
}


@pytest.fixture(scope="module")
def previous(client: Client, cluster: KindCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The default flavor of the previous commit, whose image is on the nodes; the current one is installed again."""
    try:
        source = previous_source()
    except CommandFailed as error:
        pytest.skip(f"this clone lacks the previous commit (git fetch --deepen=1): {error}")
    cluster.load_image(PREVIOUS)
    flavor = tmp_path_factory.mktemp("previous")
    name, _, tag = PREVIOUS.partition(":")
    (flavor / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        f"resources: [{os.path.relpath(source / 'manifests/kind', flavor)}]\n"
        f"images:\n- {{name: {name}, newTag: {tag}}}\n"
    )
    yield flavor
    flavors.install(client, flavors.CONTROLLER_ALLOCATED, flavor)


def test_claims_live_through_a_downgrade_and_an_upgrade_and_end_under_either_version(
    client: Client, namespace: str, watcher: Watcher, previous: Path
) -> None:
    client.apply(namespace, *(template(name, it) for name, it in REQUESTS.items()))
    client.create(namespace, *wave("first"), *wave("second"))
    client.wait_until_ready(namespace)
    flavors.install(client, previous)
    check_nothing_was_restarted(client, namespace)
    end(client, namespace, "first")
    client.create(namespace, *wave("third"))
    client.wait_until_ready(namespace)
    flavors.install(client, flavors.CONTROLLER_ALLOCATED, previous)
    check_nothing_was_restarted(client, namespace)
    check_usage_matches_claims(client, watcher)
    end(client, namespace, "second", "third")


def wave(name: str) -> list[Object]:
    """A pod with a claim of each kind."""
    return [pod(f"{kind}-{name}", kind) for kind in REQUESTS]


def end(client: Client, namespace: str, *waves: str) -> None:
    """Delete the pods of these waves, and wait until their claims have nothing on the nodes."""
    claims = client.claims(namespace)
    names = [f"{kind}-{name}" for name in waves for kind in REQUESTS]
    uids = {claim["metadata"]["uid"] for name in names for claim in claims[name].values()}
    client.delete(namespace, "pods", *names)
    eventually_none("nothing is left on the nodes", lambda: nodes.leftovers(client, uids))


def check_nothing_was_restarted(client: Client, namespace: str) -> None:
    """All containers run since their pods were created."""
    statuses = [status for it in client.list("pods", namespace) for status in it["status"]["containerStatuses"]]
    assert all(status["ready"] and status["restartCount"] == 0 for status in statuses)
