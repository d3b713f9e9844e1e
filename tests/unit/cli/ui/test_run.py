"""``lode ui`` that cannot serve says why, with the status that the help names."""

import socket
from pathlib import Path

import pytest

from cli.__main__ import main as lode
from cli.commands import COMMANDS
from tests.unit.cli.ui.fleets import NAMES

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: team-a}}]
current-context: x
"""


def test_without_a_kubeconfig_it_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["ui", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("lode ui: ")


@pytest.mark.parametrize("option", ["--port={}", "--listen=127.0.0.1:{}"])
def test_a_port_that_is_taken_is_named(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert lode(["ui", "--kubeconfig", str(kubeconfig), option.format(port)]) == 2
    assert f"address 127.0.0.1:{port}: cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", "127.0.0.1:", "no.such.host.invalid:80"])
def test_an_address_that_is_none_is_named(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    assert lode(["ui", "--kubeconfig", str(kubeconfig), "--listen", address]) == 2
    assert f"address {address}: cannot be used" in capsys.readouterr().err


def test_the_driver_is_that_of_the_other_commands() -> None:
    parser = COMMANDS["ui"].parser
    assert parser is not None
    assert parser().parse_args([]).driver == NAMES.driver
