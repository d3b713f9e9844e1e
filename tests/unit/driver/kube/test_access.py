import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.errors import OperatorFault
from driver.kube.access import TOKEN_SECONDS, TokenFile, from_environment, from_kubeconfig, in_cluster

SERVICE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def kubeconfig(folder: Path, **user: str) -> str:
    path = folder / "config"
    for name in ("ca.crt", "c.crt", "c.key"):
        (folder / name).touch()
    cluster = {"server": "https://api.example:6443/", "certificate-authority": "ca.crt", "tls-server-name": "api"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "ca.crt").write_text("pem")
    access = in_cluster(SERVICE, tmp_path)
    assert (access.server, access.ca_file, access.token()) == (
        "https://10.96.0.1:443",
        str(tmp_path / "ca.crt"),
        "abc",
    )
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).server == "https://[fd00::1]:443"


def test_a_pod_without_a_service_account_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OperatorFault, match=r"token.*ca.crt.*mount"):
        in_cluster(SERVICE, tmp_path)


def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    path, time = tmp_path / "token", Time()
    path.write_text("old")
    token = TokenFile(path, time)
    assert token() == "old"
    path.write_text("new")
    assert token() == "old"
    time.now += TOKEN_SECONDS
    assert token() == "new"
    path.unlink()
    time.now += TOKEN_SECONDS
    assert token() == "new"


def test_a_token_that_was_never_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        TokenFile(tmp_path / "token")()


def test_a_kubeconfig_gives_server_and_credentials(tmp_path: Path) -> None:
    access = from_kubeconfig(kubeconfig(tmp_path, token="t"))
    assert (access.server, access.ca_file, access.server_name) == (
        "https://api.example:6443",
        str(tmp_path / "ca.crt"),
        "api",
    )
    assert access.token() == "t"
    access = from_kubeconfig(kubeconfig(tmp_path, **{"client-certificate": "c.crt", "client-key": "c.key"}))
    assert (access.cert_file, access.key_file, access.token()) == (
        str(tmp_path / "c.crt"),
        str(tmp_path / "c.key"),
        "",
    )


@pytest.mark.parametrize("name", ["BearerToken", "authorization"])
def test_a_token_is_found_under_each_name_that_the_package_has_had_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def load(*_: object, client_configuration: Any, **__: object) -> None:
        client_configuration.api_key = {name: "Bearer t"}

    monkeypatch.setattr("kubernetes.config.load_kube_config", load)
    assert from_kubeconfig(kubeconfig(tmp_path, token="t")).token() == "t"


UNUSABLE = {
    "empty": "",
    "no YAML": "clusters: [",
    "no mapping": "- clusters",
    "no base64": """
        current-context: c
        contexts: [{name: c, context: {cluster: k, user: u}}]
        clusters: [{name: k, cluster: {server: "https://api.example", certificate-authority-data: abc}}]
        users: [{name: u, user: {token: t}}]
    """,
}


@pytest.mark.parametrize("fault", [*UNUSABLE, "folder"])
def test_an_unusable_kubeconfig_is_named(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "kube config"
    if fault in UNUSABLE:
        path.write_text(UNUSABLE[fault])
    elif fault == "folder":
        path.mkdir()
    with pytest.raises(OperatorFault, match=f"{path}.*correct it, or set"):
        from_kubeconfig(str(path))


def test_without_a_kubeconfig_the_message_says_where_one_was_looked_for(tmp_path: Path) -> None:
    path = f"{tmp_path}/a:{tmp_path}/b"
    with pytest.raises(OperatorFault, match=rf"no kubeconfig: {tmp_path}/a, {tmp_path}/b .*; set \$KUBECONFIG"):
        from_kubeconfig(path)


def test_what_is_named_comes_before_the_environment_and_that_before_the_pod(tmp_path: Path) -> None:
    named = kubeconfig(tmp_path, token="named")
    assert from_environment(named, {"KUBECONFIG": "/nowhere", **SERVICE}).token() == "named"
    assert from_environment("", {"KUBECONFIG": named, **SERVICE}).token() == "named"
    with pytest.raises(OperatorFault, match="serviceaccount"):
        from_environment("", SERVICE)


def test_a_pod_never_imports_the_generated_client() -> None:
    code = "import sys, driver.kube.client; sys.exit('kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_package_that_reads_kubeconfigs_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(OperatorFault, match="install Lode's command as README says, or run this in a pod"):
        from_kubeconfig(kubeconfig(tmp_path))


def test_a_context_other_than_the_current_one_can_be_chosen(tmp_path: Path) -> None:
    path = Path(kubeconfig(tmp_path, token="t"))
    content = yaml.safe_load(path.read_text())
    other = {"name": "other", "context": {"cluster": "k", "user": "u", "namespace": "team-a"}}
    path.write_text(yaml.safe_dump({**content, "contexts": [*content["contexts"], other]}))
    assert from_environment(str(path), SERVICE, context="other").namespace == "team-a"
    assert from_environment(str(path), SERVICE).namespace == "default"
    with pytest.raises(OperatorFault, match="nowhere"):
        from_environment(str(path), SERVICE, context="nowhere")
