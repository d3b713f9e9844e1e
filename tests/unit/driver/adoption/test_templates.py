"""What names on demand mean: the claim that each stands for."""

import json
from typing import Any

import pytest

from driver.adoption import template_spec
from driver.errors import InvalidInput
from driver.names import Names
from driver.wire.claims import claim_from

_NAMES = Names()
_MEANT: dict[str, dict[str, Any]] = {
    "lode-adopt.nvidia.n4": {"class": "gpu", "count": 4},
    "lode-adopt.nvidia.g1g5gbx1": {"class": "mig", "cel": ['.profile == "1g.5gb"']},
    "lode-adopt.nvidia.g1g10gbmex2": {"class": "mig", "count": 2, "cel": ['.profile == "1g.10gb+me"']},
    "lode-adopt.hami.n2": {"class": "gpu", "count": 2},
    "lode-adopt.hami.n1-m3000-c30": {
        "class": "gpu-share",
        "capacity": {"memory": "3000Mi", "cores": "30"},
        "config": {"sharing": "hamiCore"},
    },
    "lode-adopt.hami.m3000": {
        "class": "gpu-share",
        "capacity": {"memory": "3000Mi"},
        "config": {"sharing": "hamiCore"},
    },
    "lode-adopt.hami.n1-m2000-p50": {
        "class": "gpu-share",
        "capacity": {"memory": "2000Mi"},
        "config": {"sharing": "hamiCore"},
    },
    "lode-adopt.hami.n1-p40-c60": {
        "class": "gpu-share",
        "capacity": {"cores": "60"},
        "config": {"sharing": "hamiCore", "memoryPercent": 40},
    },
    "lode-adopt.hami.n1-p100": {"class": "gpu"},
    "lode-adopt.hami.n2-p100-c100": {"class": "gpu", "count": 2},
    "lode-adopt.hami.n1-c150": {"class": "gpu"},
    "lode-adopt.hami.n2-m4000.b-true": {
        "class": "gpu-share",
        "count": 2,
        "capacity": {"memory": "4000Mi"},
        "config": {"sharing": "hamiCore"},
        "constraints": ["lode.dev/uuid", "resource.kubernetes.io/numaNode"],
    },
    "lode-adopt.hami.n1.t-a100-c-sv100-c.nt-a100-dpcie": {
        "class": "gpu",
        "cel": ['["a100", "v100"].exists', '!["a100-pcie"].exists'],
    },
    "lode-adopt.hami.n1.u-gpu-da.nu-gpu-db": {
        "class": "gpu",
        "cel": ['.uuid.lowerAscii() in ["gpu-a"]', '.uuid.lowerAscii() in ["gpu-b"])'],
    },
    "lode-adopt.hami.n1-m10000.v-mig": {
        "class": "mig",
        "capacity": {"memory": "10000Mi"},
        "config": {"policy": "binpack"},
    },
    "lode-adopt.hami.n1-m1000.v-mps": {
        "class": "gpu-share",
        "capacity": {"memory": "1000Mi"},
        "config": {"sharing": "mps"},
    },
    "lode-adopt.hami.n1-m1000.sn-binpack.sg-spread": {
        "class": "gpu-share",
        "capacity": {"memory": "1000Mi"},
        "config": {"sharing": "hamiCore", "policy": "spread", "nodePolicy": "binpack"},
    },
    "lode-adopt.hami.n1.sg-spread": {"class": "gpu", "config": {"policy": "spread", "nodePolicy": "firstFit"}},
    "lode-adopt.hami.n1.sn-spread": {"class": "gpu", "config": {"nodePolicy": "spread"}},
    "lode-adopt.hami.n1.sn-spread.sg-numa": {
        "class": "gpu",
        "config": {"policy": "binpack", "locality": "preferred", "nodePolicy": "spread"},
    },
    "lode-adopt.volcano.s3072": {"class": "gpu-share", "capacity": {"memory": "3072Mi"}},
    "lode-adopt.volcano.w2": {"class": "gpu", "count": 2},
    "lode-adopt.volcano.n1": {"class": "gpu"},
    "lode-adopt.volcano.n1-m8000-c100": {
        "class": "gpu",
        "cel": ['device.capacity["lode.dev"].memory.compareTo(quantity("8000Mi")) >= 0'],
    },
    "lode-adopt.volcano.n1-m2000-p50": {
        "class": "gpu-share",
        "config": {"sharing": "hamiCore", "memoryPercent": 50},
    },
    "lode-adopt.volcano.n1-m1000.t-a10.nt-a100": {
        "class": "gpu-share",
        "capacity": {"memory": "1000Mi"},
        "config": {"sharing": "hamiCore"},
        "cel": ['["a10"].exists'],
    },
    "lode-adopt.volcano.n1.t-a100-c": {"class": "gpu"},
    "lode-adopt.volcano.n1.t-a100-c-sv100": {"class": "gpu", "cel": ['["a100", " v100"].exists']},
    "lode-adopt.volcano.n2.i-0-c2": {"class": "gpu", "count": 2, "cel": [".index in [0, 2]"]},
    "lode-adopt.volcano.n1.u-gpu-da-c-sgpu-db.nu-gpu-db": {
        "class": "gpu",
        "cel": ['.uuid.lowerAscii() in ["gpu-a", "gpu-b"]', '!(device.attributes["lode.dev"].uuid.lowerAscii() in ["'],
    },
    "lode-adopt.ascend.h910n2": {
        "class": "npu",
        "count": 2,
        "cel": ['.type.startsWith("910")'],
        "config": {"policy": "binpack", "locality": "preferred"},
    },
    "lode-adopt.ascend.h310pn1-h310pm2048": {"class": "vnpu", "cel": ['.type == "310P"', '.profile == "vir01"']},
    "lode-adopt.ascend.h310pn1-h310pm22000": {"class": "npu", "cel": ['.type == "310P"']},
    "lode-adopt.ascend.h910b41n1": {"class": "npu", "cel": ['.endsWith("910b4-1")']},
    "lode-adopt.ascend.h910b41n1-h910b41m8192": {
        "class": "vnpu",
        "cel": ['.endsWith("910b4-1")', '.profile in ["vir05_1c_16g", "vir05_1c_8g"]'],
    },
    "lode-adopt.ascend.h910b41n1-h910b41m32768": {
        "class": "vnpu",
        "cel": ['.endsWith("910b4-1")', '.profile in ["vir10_3c_32g", "vir10_3c_16g"]'],
    },
    "lode-adopt.ascend.h910b41n1-h910b41m65536": {"class": "npu", "cel": ['.endsWith("910b4-1")']},
    "lode-adopt.ascend.h910b4n1-h910b4m4096-h910b4c25.v-hami-dcore": {
        "class": "npu-share",
        "capacity": {"memory": "4096Mi", "cores": "25"},
        "cel": ['.endsWith("910b4")'],
    },
    "lode-adopt.ascend.v310p4c3cpux1": {"class": "vnpu", "cel": ['.type == "310P"', '.profile == "vir04_3c"']},
    "lode-adopt.ascend.v9102cx1": {"class": "vnpu", "cel": ['.type.startsWith("910")', '.profile == "vir02"']},
    "lode-adopt.ascend.h310pn1.u310p-a1-dc-c-sb2": {
        "class": "npu",
        "cel": ['.type == "310P"', '.uuid.lowerAscii() in ["a1-c", "b2"]'],
    },
    "lode-adopt.ascend.h310pn1-h310pm2048.u310p-a1.nu310p-b2": {
        "class": "vnpu",
        "cel": [
            '.type == "310P"',
            '.uuid.lowerAscii() in ["a1"]',
            '.uuid.lowerAscii() in ["b2"])',
            '.profile == "vir01"',
        ],
    },
    "lode-adopt.ascend.h910b3n1.u310p-a1": {"class": "npu", "cel": ['.endsWith("910b3")']},
    "lode-adopt.ascend.k4.l-high.d-no": {"class": "vnpu", "cel": ['.type == "310P"', '.profile == "vir04_3c_ndvpp"']},
    "lode-adopt.ascend.k16": {
        "class": "npu",
        "count": 2,
        "cel": ['.type == "310P"'],
        "config": {"policy": "binpack", "locality": "preferred"},
    },
    "lode.2-h100-80gi": {"class": "gpu", "count": 2, "capacity": {"memory": "80G"}, "cel": ['== "h100"']},
    "lode.gpu": {"class": "gpu"},
    "lode.share-8gi-30c-mps-spread": {
        "class": "gpu-share",
        "capacity": {"memory": "8Gi", "cores": "30"},
        "config": {"sharing": "mps", "policy": "spread"},
    },
    "lode.share-310p-8gi": {"class": "npu-share", "capacity": {"memory": "8Gi"}, "cel": ['== "310p"']},
    "lode.mig-1g-10gb-me": {"class": "mig", "cel": ['.profile == "1g.10gb+me"']},
    "lode.vnpu-vir02-1c-310p": {"class": "vnpu", "cel": ['== "310p"', '.profile == "vir02_1c"']},
    "lode.4-910b3-nvlink": {
        "class": "npu",
        "count": 4,
        "cel": ['.endsWith("910b3")'],
        "constraints": ["lode.dev/nvlinkDomain"],
    },
}
"""By name: the class, and the rest where it is not empty. Selectors are named by a part of them."""


@pytest.mark.parametrize("name", _MEANT)
def test_a_name_means(name: str) -> None:
    """The class, the count, the amounts, the selectors, the constraints and the parameters."""
    devices = template_spec(name, _NAMES)["spec"]["devices"]
    [request] = devices["requests"]
    exactly = request["exactly"]
    wanted: dict[str, Any] = {"count": 1, "capacity": {}, "cel": [], "constraints": [], "config": {}} | _MEANT[name]
    parameters = [entry["opaque"]["parameters"] for entry in devices.get("config", [])]
    assert exactly["deviceClassName"] == f"{wanted['class']}.lode.dev"
    assert exactly.get("count", 1) == wanted["count"]
    assert exactly.get("capacity", {}).get("requests", {}) == wanted["capacity"]
    assert {
        key: value for one in parameters for key, value in one.items() if key not in ("apiVersion", "kind")
    } == wanted["config"]
    found = [one.get("matchAttribute") or one["distinctAttribute"] for one in devices.get("constraints", [])]
    assert found == wanted["constraints"]
    selectors = [one["cel"]["expression"] for one in exactly.get("selectors", [])]
    assert len(selectors) == len(wanted["cel"])
    assert all(part in selector for part, selector in zip(wanted["cel"], selectors, strict=True))


def test_two_templates_are_tried_where_mindcluster_takes_less_cpu() -> None:
    """``npu-core: 2`` with level high: the second when no room is left for the first. Without a level, it is low."""
    [request] = template_spec("lode-adopt.ascend.k2.l-high", _NAMES)["spec"]["devices"]["requests"]
    assert [choice["name"] for choice in request["firstAvailable"]] == ["vir02", "vir02-1c"]
    for name in ("lode-adopt.ascend.k2", "lode-adopt.ascend.k2.l-low"):
        [request] = template_spec(name, _NAMES)["spec"]["devices"]["requests"]
        assert '"vir02_1c"' in str(request["exactly"]["selectors"])


@pytest.mark.parametrize(("dies", "modules"), [(2, 1), (3, 2), (16, 8)])
def test_dies_are_modules_where_a_card_is_a_module(dies: int, modules: int) -> None:
    """Of Ascend 910C; on nodes whose policy lets containers have one die, they are as many cards."""
    [request] = template_spec(f"lode-adopt.ascend.h910cn{dies}", _NAMES)["spec"]["devices"]["requests"]
    first, second = request["firstAvailable"]
    assert (first.get("count", 1), second["count"]) == (modules, dies)
    for choice, compared in ((first, ">= 0"), (second, "< 0")):
        assert choice["selectors"][-1]["cel"]["expression"].endswith(f'(quantity("98304Mi")) {compared}')


def test_a_plain_resource_is_its_class() -> None:
    """With dots and hyphens in the name of the class."""
    devices = template_spec("lode-adopt.plain.n2-gpu-pexample-dx-pcom.n1-fpga", _NAMES)["spec"]["devices"]
    assert [one["exactly"] for one in devices["requests"]] == [
        {"deviceClassName": "gpu.example-x.com", "count": 2},
        {"deviceClassName": "fpga", "count": 1},
    ]


@pytest.mark.parametrize("name", [*_MEANT, "lode-adopt.ascend.k2.l-high", "lode-adopt.plain.n2-gpu"])
def test_every_template_makes_claims_that_can_be_read(name: str) -> None:
    """With all fields known, and under any driver name."""
    for driver in ("lode.dev", "gpu.example.com"):
        spec = json.loads(json.dumps(template_spec(name, Names(driver))["spec"]))
        claim = claim_from({"metadata": {"namespace": "a", "name": "b", "uid": "c"}, "spec": spec})
        assert claim.spec.requests
        assert not claim.problem


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lode-adopt.cloud.n1", "one of nvidia, hami, volcano, ascend, plain"),
        ("lode-adopt.nvidia.n1.t-a100", "'t' means nothing for nvidia"),
        ("lode-adopt.hami.zz1", "'zz' means nothing for hami"),
        ("lode-adopt.hami.n0", "it asks for no device"),
        ("lode-adopt.hami.n33", "at most 32 devices"),
        ("lode-adopt.plain.n33-gpu", "at most 32 devices"),
        ("lode-adopt.hami.n1.v-mig", "needs an amount of memory"),
        ("lode-adopt.volcano.n1.i-x", "a list of numbers"),
        ("lode-adopt.volcano.n1.nt", "excludes every card"),
        ("lode-adopt.ascend.h310pn1-h310pm24577", "a card has 24576 MiB"),
        ("lode-adopt.ascend.h310pn2-h310pm3072", "several cards are given whole"),
        ("lode-adopt.ascend.k3", "no template has 3 cores"),
        ("lode.2-h10-80gi", "'h10' is no word of such names; the types of this name are h20, h100, h200, h800"),
        ("lode.h100-a100", "h100 and a100: write one of them"),
        ("lode.33-h100", "'33' is no word"),
        ("lode.2", "say what it is"),
        ("lode.mig", "mig: say which one, as in lode.mig-1g-10gb"),
        ("lode.h100-30c", "only a share has a part of the cores"),
        ("lode.310p-share-mps", "only shares of GPUs are shared by it"),
        ("lode.gpu-310p", "different vendors"),
        ("gpu", "does not begin with"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_the_remedy(name: str, said: str) -> None:
    """Named by its field."""
    with pytest.raises(InvalidInput, match=r"metadata\.name") as refused:
        template_spec(name, _NAMES)
    assert said in str(refused.value)
