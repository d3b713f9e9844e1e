"""Whether the container runtime reads the plugin's CDI specs is said by its settings, wherever a distribution has them.

What the files do not say is said as not known.
"""

from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import StringValue

from cli.doctor.findings import Finding
from cli.doctor.node_checks import check_runtimes
from cli.doctor.node_look import look_at_runtimes

ETC = "etc/containerd/config.toml"
V1, V2, V3 = "[plugins.cri]", '[plugins."io.containerd.grpc.v1.cri"]', '[plugins."io.containerd.cri.v1.runtime"]'
IMPORTS = 'imports = ["/etc/containerd/conf.d/*.toml"]'
DROP_IN = "etc/containerd/conf.d/99-nvidia.toml"
ON, OFF = "enable_cdi = true", "enable_cdi = false"
MOVED = 'cdi_spec_dirs = ["/var/cdi/static", "/var/cdi/dynamic"]'
RANCHER = "var/lib/rancher/{}/agent/etc/containerd/config.toml"
SOCKET, K3S, CRIO = "run/containerd/containerd.sock", "run/k3s/containerd/containerd.sock", "run/crio/crio.sock"

Files = dict[str, list[str]]
Serve = Callable[[str, str], None]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts something at a socket that says this version of containerd, or nothing."""
    servers: list[grpc.Server] = []

    def start(path: str, version: str) -> None:
        def answer(_request: bytes, context: grpc.ServicerContext) -> Any:
            return StringValue(value=version) if version else context.abort(grpc.StatusCode.UNAVAILABLE, "not now")

        call = grpc.unary_unary_rpc_method_handler(answer, bytes, StringValue.SerializeToString)
        server = grpc.server(futures.ThreadPoolExecutor(1))
        named = grpc.method_handlers_generic_handler("containerd.services.version.v1.Version", {"Version": call})
        server.add_generic_rpc_handlers((named,))
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        server.add_insecure_port(f"unix:{tmp_path / path}")
        server.start()
        servers.append(server)

    yield start
    for each in servers:
        each.stop(None)


def found(root: Path, files: Files, cdi_root: str = "/var/run/cdi") -> list[Finding]:
    for path, lines in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("\n".join(lines))
    return list(check_runtimes(look_at_runtimes(root), cdi_root))


@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        pytest.param(
            {ETC: ["version = 2", IMPORTS], DROP_IN: ["version = 2", V2, ON]}, "ok", "is on", id="1.7, a drop-in: on"
        ),
        pytest.param(
            {ETC: ["version = 2", IMPORTS, V2, ON], DROP_IN: ["version = 2", V2, OFF]},
            "failed",
            "enable_cdi is false",
            id="1.7, a drop-in: off",
        ),
        pytest.param(
            {ETC: ["version = 3", IMPORTS], DROP_IN: ["version = 3", V3, MOVED]},
            "failed",
            "reads CDI specs in /var/cdi/dynamic, /var/cdi/static",
            id="2, a drop-in moves the folders",
        ),
        pytest.param({ETC: ["version = 2", V2]}, "warning", "if it is 1.7: enable_cdi is not set", id="format 2"),
        pytest.param({ETC: ["root = '/x'"]}, "warning", "if it is 1.7: enable_cdi is not set", id="no format"),
        pytest.param(
            {"etc/cri/conf.d/20-customization.part": [V3, MOVED]}, "failed", "/var/cdi/static", id="Talos, moved"
        ),
        pytest.param({RANCHER.format("k3s"): ["version = 2", V2, OFF]}, "failed", "is false", id="k3s, off"),
        pytest.param({RANCHER.format("rke2"): ["version = 2", V2, OFF]}, "failed", "is false", id="RKE2, off"),
        pytest.param(
            {
                "etc/k0s/containerd.toml": ["version = 2", 'imports = ["/etc/k0s/containerd.d/*.toml"]'],
                "etc/k0s/containerd.d/x.toml": ["version = 2", V2, OFF],
            },
            "failed",
            "is false",
            id="k0s, a drop-in: off",
        ),
        pytest.param(
            {"var/snap/microk8s/current/args/containerd.toml": ["version = 2", V2, OFF]},
            "failed",
            "is false",
            id="MicroK8s, off",
        ),
        pytest.param(
            {"etc/crio/crio.conf.d/10.conf": ["[crio.runtime]", 'cdi_spec_dirs = ["/opt/cdi"]']},
            "failed",
            "/opt/cdi",
            id="CRI-O, moved",
        ),
        pytest.param({ETC: ["version = 3", V3, "cdi_spec_dirs = []"]}, "failed", "in no folder", id="no folder"),
        pytest.param({}, "unknown", "neither the socket nor a file", id="nothing"),
        pytest.param({ETC: ["version = 3"]}, "ok", "is on", id="format 3"),
        pytest.param({ETC: ["version = 3", V3, OFF]}, "failed", "is false", id="format 3, off"),
        pytest.param({ETC: ["version = 1", V1, OFF]}, "failed", "is false", id="format 1, off"),
        pytest.param({ETC: ["version = 2", V2, ON]}, "ok", "is on", id="format 2, on"),
        pytest.param({"etc/crio/crio.conf": ["[crio]"]}, "ok", "is on", id="CRI-O, as it comes"),
        pytest.param(
            {ETC: ["version = 3", V3, 'cdi_spec_dirs = ["/etc/cdi", "/run/cdi/"]']}, "ok", "is on", id="a link"
        ),
        pytest.param(
            {ETC: ["version = 2", IMPORTS, V2, ON], DROP_IN: ["version = 2", V2, "x = 1"]},
            "warning",
            "if it is 1.7: enable_cdi is not set",
            id="a drop-in has the section without it, which 1.7 takes as a whole",
        ),
        pytest.param(
            {
                ETC: ["version = 2", 'imports = ["conf.d/a.toml"]'],
                "etc/containerd/conf.d/a.toml": ['imports = ["../config.toml", "b.toml"]'],
                "etc/containerd/conf.d/b.toml": ["version = 2", V2, ON],
            },
            "ok",
            "is on",
            id="imports of imports, in a circle",
        ),
    ],
)
def test_the_settings_say_it(tmp_path: Path, files: Files, status: str, words: str) -> None:
    (finding,) = found(tmp_path, files)
    assert (finding.check, finding.status) == ("CDI", status)
    assert words in finding.message
    assert bool(finding.remedy) == (status != "ok")


@pytest.mark.parametrize(
    "lines",
    [
        ["version = = 3"],
        ["version = 'three'"],
        ["imports = 3"],
        ["imports = ['/etc/containerd/not-there.toml']"],
        ["plugins = 3"],
        [V2, "enable_cdi = 'true'"],
        [V3, "cdi_spec_dirs = '/etc/cdi'"],
        [V3, "cdi_spec_dirs = [3]"],
        ["disabled_plugins = 'cri'"],
    ],
)
def test_what_cannot_be_read_is_not_known(tmp_path: Path, lines: list[str]) -> None:
    (finding,) = found(tmp_path, {ETC: lines})
    assert finding.status == "unknown"
    assert finding.message.startswith("cannot be read: ")


@pytest.mark.parametrize("kind", ["a folder", "no text", "a link to nowhere"])
def test_a_file_that_is_none_is_not_known(tmp_path: Path, kind: str) -> None:
    drop_in = tmp_path / DROP_IN
    drop_in.parent.mkdir(parents=True)
    if kind == "a folder":
        drop_in.mkdir()
    elif kind == "no text":
        drop_in.write_bytes(b"\xff")
    else:
        drop_in.symlink_to("nowhere")
    (finding,) = found(tmp_path, {ETC: ["version = 3", IMPORTS]})
    assert (finding.status, finding.subject) == ("unknown", f"/{DROP_IN}")


@pytest.mark.parametrize(
    ("version", "status"), [("1.7.27", "failed"), ("v2.1.4", "ok"), ("2.0.0-rc.1", "ok"), ("", "warning")]
)
@pytest.mark.parametrize("files", [{}, {ETC: ["version = 2", V2, "x = 1"]}], ids=["no file", "format 2"])
def test_the_version_is_asked_where_the_files_do_not_say_it(
    tmp_path: Path, serve: Serve, version: str, status: str, files: Files
) -> None:
    serve(SOCKET, version)
    (finding,) = found(tmp_path, files)
    assert finding.status == status


def test_only_runtimes_that_listen_count(tmp_path: Path, serve: Serve) -> None:
    left = {ETC: ["version = 3", V3, OFF], RANCHER.format("k3s"): ["version = 3"]}
    assert [finding.status for finding in found(tmp_path, left)] == ["failed", "ok"]
    serve(K3S, "2.1.4")
    (finding,) = found(tmp_path, left)
    assert (finding.status, finding.subject) == ("ok", f"/{RANCHER.format('k3s')}")


def test_a_containerd_that_serves_no_kubelet_does_not_count(tmp_path: Path, serve: Serve) -> None:
    serve(SOCKET, "1.7.27")
    serve(CRIO, "")
    (finding,) = found(tmp_path, {ETC: ['disabled_plugins = ["cri"]']})
    assert (finding.status, finding.subject) == ("ok", "CRI-O")


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (ETC, "in a file that it imports"),
        (RANCHER.format("k3s"), "config-v3.toml.tmpl"),
        ("etc/cri/conf.d/20-customization.part", "20-customization.part"),
        ("etc/k0s/containerd.toml", "/etc/k0s/containerd.d"),
        ("var/snap/microk8s/current/args/containerd.toml", "containerd-template.toml"),
    ],
)
def test_the_remedy_says_where_the_distribution_has_its_settings(tmp_path: Path, path: str, where: str) -> None:
    (finding,) = found(tmp_path, {path: ["version = 3", V3, OFF]})
    assert 'enable_cdi = true in [plugins."io.containerd.cri.v1.runtime"]' in finding.remedy
    assert where in finding.remedy


def test_a_folder_that_the_runtime_reads_can_be_given_to_the_plugin(tmp_path: Path) -> None:
    files = {"etc/cri/conf.d/20-customization.part": [V3, MOVED]}
    assert "set kubeletplugin.cdiRoot to one of these" in found(tmp_path, files)[0].remedy
    assert found(tmp_path, files, "/var/cdi/dynamic")[0].status == "ok"
