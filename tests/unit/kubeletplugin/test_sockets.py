import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.errors import OperatorFault
from driver.limits import MAX_SOCKET_PATH
from kubeletplugin.sockets import socket_paths

UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
ROOT = "/var/lib/kubelet"


def test_names_follow_the_convention() -> None:
    plain, rolling = socket_paths(ROOT, "lode.dev"), socket_paths(ROOT, "lode.dev", UID)
    assert (plain.service, plain.registration) == (
        f"{ROOT}/plugins/lode.dev/dra.sock",
        f"{ROOT}/plugins_registry/lode.dev-reg.sock",
    )
    assert (rolling.service, rolling.registration) == (
        f"{ROOT}/plugins/lode.dev/dra-{UID}.sock",
        f"{ROOT}/plugins_registry/lode.dev-{UID}-reg.sock",
    )


@given(driver=st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", fullmatch=True), uid=st.sampled_from(["", UID]))
def test_every_path_fits_the_kernels_limit(driver: str, uid: str) -> None:
    paths = socket_paths("/var/lib/k", driver, uid)
    assert len(paths.service) <= MAX_SOCKET_PATH
    assert len(paths.registration) <= MAX_SOCKET_PATH


def test_a_long_name_is_shortened_and_still_differs_from_pod_to_pod() -> None:
    long = "a" * 30 + ".example.com"
    one, two = socket_paths(ROOT, long, UID), socket_paths(ROOT, long, UID.replace("0", "1"))
    assert len(one.registration) <= MAX_SOCKET_PATH
    assert one.registration != two.registration
    assert UID not in one.registration


def test_a_root_too_long_for_any_name_is_the_operators_to_mend() -> None:
    with pytest.raises(OperatorFault, match=r"kubeletRoot.*shorter path"):
        socket_paths("/" + "long/" * 20, "lode.dev", UID)
