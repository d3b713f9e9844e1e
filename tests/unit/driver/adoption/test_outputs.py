"""The annotations by which containers of MindCluster's pods learn their cards."""

import pytest

from driver.adoption import output_annotations


@pytest.mark.parametrize(
    ("devices", "annotations"),
    [
        ([("lode-adopt.ascend.h910n2", ["npu-1", "npu-0"])], {"huawei.com/Ascend910": "Ascend910-0,Ascend910-1"}),
        ([("lode-adopt.ascend.h310pn1", ["npu-10"])], {"huawei.com/Ascend310P": "Ascend310P-10"}),
        ([("lode-adopt.ascend.h910b3n1", ["npu-7"])], {"huawei.com/Ascend910B3": "Ascend910B3-7"}),
        (
            [("lode-adopt.ascend.h910n1", ["npu-3"]), ("lode-adopt.ascend.h910n2", ["npu-2", "npu-10"])],
            {"huawei.com/Ascend910": "Ascend910-2,Ascend910-3,Ascend910-10"},
        ),
        ([("lode-adopt.ascend.h310pn1-h310pm3072", ["npu-0-vir01-0"])], {}),
        ([("lode-adopt.ascend.k16", ["npu-0", "npu-1"])], {}),
        ([("lode-adopt.ascend.h910n1-h310pn1", ["npu-0", "npu-1"])], {}),
        ([("lode-adopt.ascend.??", ["npu-0"])], {}),
        ([("lode-adopt.nvidia.n1", ["gpu-0"])], {}),
        ([("lode.npu", ["npu-0"]), ("other", ["npu-1"])], {}),
        ([], {}),
    ],
)
def test_whole_cards_are_named_by_their_index(
    devices: list[tuple[str, list[str]]], annotations: dict[str, str]
) -> None:
    assert output_annotations([("lode-ascend-0", *one) for one in devices]) == annotations


def test_cards_that_only_init_containers_use_are_not_named() -> None:
    """The other containers cannot use them."""
    own, extra = (f"lode-ascend-{entry}" for entry in ("0", "init"))
    devices = [(own, "lode-adopt.ascend.h910n1", ["npu-3"]), (extra, "lode-adopt.ascend.h910n1", ["npu-4"])]
    assert output_annotations(devices) == {"huawei.com/Ascend910": "Ascend910-3"}
