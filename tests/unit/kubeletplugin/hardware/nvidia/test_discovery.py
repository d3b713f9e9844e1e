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
        ("NVIDIA RTX PRO 4500 Blackwell", "RTX-PRO-4500"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "RTX-4000-Ada"),
        ("Quadro RTX 6000", "RTX-6000"),
        ("NVIDIA TITAN V", "TITAN-V"),
        ("NVIDIA GeForce GTX 1080 Ti", "GTX-1080"),
        ("NVIDIA CMP 170HX", "CMP-170HX"),
        ("Tesla P4", "P4"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA Thor", "Thor"),
        ("GRID T4-16C", "T4"),
        ("GRID V100D-8C", "V100D"),
        ("GRID A100D-20C", "A100D"),
        ("GRID P40-4Q", "P40"),
        ("NVIDIA A40-48Q", "A40"),
        ("NVIDIA L40S-24C", "L40S"),
        ("NVIDIA RTX Pro 6000 Blackwell DC-1-24C", "RTX-PRO-6000"),
        ("NVIDIA Graphics Device", "unknown"),
        ("Graphics Device", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_family_is_the_word_that_names_the_product(name: str, family: str) -> None:
    assert family_of(name) == family
