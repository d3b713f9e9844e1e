"""The syntax of names at its limits."""

import pytest

from driver.limits import is_c_identifier, is_dns_label


@pytest.mark.parametrize(
    ("text", "valid"),
    [("gpu-0", True), ("0", True), ("g" * 63, True), ("g" * 64, False), ("", False), ("GPU", False), ("a_b", False),
     ("-a", False), ("a-", False), ("a.b", False), ("é", False), ("a\n", False)],
)  # fmt: skip
def test_dns_labels(text: str, valid: bool) -> None:
    assert is_dns_label(text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [("memory", True), ("_", True), ("numaNode2", True), ("m" * 32, True), ("m" * 33, False), ("", False),
     ("2nd", False), ("a-b", False), ("a.b", False), ("é", False), ("a\n", False)],
)  # fmt: skip
def test_c_identifiers(text: str, valid: bool) -> None:
    assert is_c_identifier(text) is valid
