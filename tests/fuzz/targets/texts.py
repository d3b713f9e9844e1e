"""Texts in a language of their own: selectors, quantities, parameters, and the files of commands."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from cli.convert.adopting import Conversion, sources_with
from cli.convert.converting import convert_file
from cli.convert.templates import TemplateNames
from cli.decisions.simulator import simulate_all
from cli.decisions.snapshot import snapshot_of
from cli.objects.checks import check
from cli.objects.documents import BadInput, Documents, parse
from cli.shipped import device_classes
from controller.allocation.selectors import CompiledSelectors
from driver import nvidia_dra
from driver.cel import SelectorError, SelectorFault, compile_selector
from driver.errors import InvalidInput
from driver.kube.codec import decode_object
from driver.model import Device, OpaqueConfig, Version
from driver.names import NVIDIA_DRA_DRIVER, Names
from driver.parameters import parameters_of, sharing_of
from driver.quantity import Quantity
from tests.adoption_cases import ADOPTION_CASES
from tests.fuzz.hostile import encoded, mutated
from tests.fuzz.source import Source
from tests.fuzz.targets.target import Target

_ROOT: Final = Path(__file__).parents[3]
_NAMES: Final = Names()
_NVIDIA_NAMES: Final = Names(nvidia_dra=True)
_ATTRIBUTES: Final[dict[str, Any]] = {
    "kind": "gpu",
    "type": "H100",
    "index": 3,
    "healthy": True,
    "version": Version("1.2.3"),
}
_DEVICE: Final = Device(
    "gpu-0",
    {f"lode.dev/{name}": value for name, value in _ATTRIBUTES.items()},
    {},
)


def _selector(data: bytes) -> None:
    """Any text is compiled and evaluated, or refused with a message."""
    text = data.decode(errors="replace")
    try:
        selector = compile_selector(text)
    except SelectorError:
        return
    CompiledSelectors("lode.dev").drivers([text])
    with suppress(SelectorFault):
        selector.matches(_DEVICE, "lode.dev")


def _quantity(data: bytes) -> None:
    """Any text is a quantity, or refused; what is taken is written so that it is read as the same."""
    try:
        quantity = Quantity.parse(data.decode(errors="replace"))
    except InvalidInput:
        return
    assert Quantity.parse(str(quantity)) == quantity


_PARAMETERS: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "PlacementConfig", "policy": "spread", "gang": {"name": "g", "minAvailable": 3}},
    {
        "kind": "PlacementConfig",
        "gang": {},
        "memoryPercent": 10,
        "topology": [{"attribute": "lode.dev/ibCluster"}, {"nodeLabel": "rack", "mode": "preferred", "groupSize": 2}],
    },
    {"kind": "GpuConfig", "sharing": "timeSlicing", "interval": "long"},
    {"kind": "MigConfig"},
    {"kind": "VnpuConfig"},
    *(
        {"apiVersion": nvidia_dra.API_VERSION, "kind": kind, "sharing": {"strategy": strategy, field: content}}
        for kind, strategy, field, content in (
            ("GpuConfig", "TimeSlicing", "timeSlicingConfig", {"interval": "Long"}),
            ("GpuConfig", "MPS", "mpsConfig", {"multiUser": False}),
            ("MigDeviceConfig", "TimeSlicing", "mpsConfig", None),
        )
    ),
)
"""Those with a version are of NVIDIA's DRA driver."""


_PARAMETERS_BYTES: Final = 10 * 1024
"""Of opaque parameters (resource.k8s.io OpaqueParametersMaxLength)."""


def _parameters(data: bytes) -> None:
    """Any parameters are taken, or refused with all their faults."""
    source = Source(data)
    chosen = source.choice(_PARAMETERS)
    driver = NVIDIA_DRA_DRIVER if "apiVersion" in chosen else "lode.dev"
    base = {"apiVersion": "lode.dev/v1alpha1", **chosen}
    config = [OpaqueConfig(driver, decode_object(encoded(mutated(base, source), _PARAMETERS_BYTES)))]
    with suppress(InvalidInput):
        parameters_of(config, _NVIDIA_NAMES, "ResourceClaim a/b", "spec.devices.config")
    sharing_of(config, _NVIDIA_NAMES, "gpu")


def _simulate(data: bytes) -> None:
    """Any file is simulated, or refused with faults."""
    documents = Documents()
    parse(data.decode(errors="replace"), "fuzz.yaml", documents)
    checked = check(documents.found, "default")
    if documents.faults or checked.faults:
        return
    with suppress(BadInput):
        simulate_all(snapshot_of(checked.objects, _NAMES, device_classes()))


_CONVERSION: Final = Conversion(sources_with({}), _NAMES)


def _convert(data: bytes) -> None:
    """Any file is converted, and then left as it is, or refused with faults and left as it is."""
    text = data.decode(errors="replace")
    done = convert_file("fuzz.yaml", text, _CONVERSION, TemplateNames())
    if done.faults:
        assert done.text == text
    else:
        assert convert_file("fuzz.yaml", done.text, _CONVERSION, TemplateNames()).text == done.text


_OLD: Final = tuple(
    yaml.safe_dump(case.written()).encode() for case in ADOPTION_CASES if case.source in ("hami", "volcano", "ascend")
)
_EXAMPLES: Final = tuple(file.read_bytes() for file in sorted((_ROOT / "manifests/examples/requests").glob("*.yaml")))
_EXPRESSIONS: Final = (
    'device.driver == "lode.dev" && device.attributes["lode.dev"].type in ["H100", "A100"]',
    'device.capacity["lode.dev"].memory.compareTo(quantity("70Gi")) >= 0',
    'device.attributes["lode.dev"].version.isGreaterThan(semver("1.0.0"))',
    '"%s %d".format(["a", 3]).matches("a.*") && [1, 2, 3].all(x, [x, 4].exists(y, y > x))',
    'cel.bind(x, device.attributes["lode.dev"], has(x.kind) ? x.kind.lowerAscii() == "gpu" : false)',
    'optional.of(duration("1h")).orValue(duration("2s")) > timestamp(9) - timestamp(7)',
    'url("https://a.b/c?d=e").getHost() == "a.b" || ip("1.2.3.4").family() == 4 || sets.contains([1], [2])',
    "-" * 40 + "1 > " + "(" * 40 + "1" + ")" * 40,
)

TARGETS: Final = (
    Target("selectors", _selector, tuple(text.encode() for text in _EXPRESSIONS)),
    Target("quantities", _quantity, (b"1", b"100Gi", b"-0.5e3", b"12E", b"1500m", b"0.1u")),
    Target("parameters", _parameters, tuple(bytes([i]) for i in range(len(_PARAMETERS)))),
    Target("simulate", _simulate, _EXAMPLES),
    Target("convert", _convert, _OLD),
)
