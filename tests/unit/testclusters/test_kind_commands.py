"""The commands of a kind cluster work in a shell that is not in the cluster's network."""

import sys
from pathlib import Path

import pytest

from testclusters.daemon import Docker
from testclusters.kind import KindCluster
from testclusters.lifecycle import NoRoom, check_room, write_programs


@pytest.mark.parametrize("namespace", [None, Path("/run/netns/x")])
def test_kubectl_and_lode_enter_the_network_of_the_cluster(
    namespace: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LODE_CACHE", str(tmp_path))
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("kubectl", "docker"):
        (tools / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tools))
    environment = {"PATH": str(tools), "DOCKER_HOST": "unix:///d", "LD_LIBRARY_PATH": ""}
    cluster = KindCluster("c", "1.37", Docker(environment, namespace))
    (cluster.folder / "bin").mkdir(parents=True)
    write_programs(cluster, built_here=False)
    enter = f"nsenter --net={namespace} -- " if namespace else ""
    for name, program in (("kubectl", tools / "kubectl"), ("lode", Path(sys.prefix, "bin/lode"))):
        lines = (cluster.folder / "bin" / name).read_text().splitlines()
        assert f'exec {enter}{program} "$@"' == lines[-1]
        assert f"export KUBECONFIG={cluster.kubeconfig}" in lines


@pytest.mark.parametrize(("clusters", "allowed", "fits"), [(1, 128, True), (2, 128, False), (2, 256, True)])
def test_clusters_whose_kubelets_could_not_watch_their_files_are_not_created(
    clusters: int, allowed: int, fits: bool, tmp_path: Path
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(f"{allowed}\n")
    if fits:
        check_room(clusters, limit)
    else:
        with pytest.raises(NoRoom, match=f"echo 256 > {limit}"):
            check_room(clusters, limit)
