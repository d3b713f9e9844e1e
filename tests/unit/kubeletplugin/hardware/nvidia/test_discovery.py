"""Names of products become families."""

import pytest

from kubeletplugin.hardware.nvidia.discovery import family_of


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Tesla T4", "T4"),
        ("NVIDIA Tesla V100-SXM2-32GB", "V100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200 NVL", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("", "unknown"),
    ],
)
def test_the_family_is_the_word_that_names_the_product(name: str, family: str) -> None:
    assert family_of(name) == family
