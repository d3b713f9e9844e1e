"""The syntax of names at its limits."""

import pytest

from driver.limits import is_c_identifier, is_dns_label


@pytest.mark.parametrize("text", ["gpu-0", "0", "g" * 63])
def test_dns_labels(text: str) -> None:
    assert is_dns_label(text)


@pytest.mark.parametrize("text", ["g" * 64, "", "GPU", "a_b", "-a", "a-", "a.b", "é", "a\n"])
def test_what_is_no_dns_label(text: str) -> None:
    assert not is_dns_label(text)


@pytest.mark.parametrize("text", ["memory", "_", "numaNode2", "m" * 32])
def test_c_identifiers(text: str) -> None:
    assert is_c_identifier(text)


@pytest.mark.parametrize("text", ["m" * 33, "", "2nd", "a-b", "a.b", "é", "a\n"])
def test_what_is_no_c_identifier(text: str) -> None:
    assert not is_c_identifier(text)
