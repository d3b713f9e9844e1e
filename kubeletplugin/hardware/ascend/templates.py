"""vNPU templates: the tables of the chips' generations, and the scheme of a chip. Pure.

The tables are those of Huawei's driver and documents. A list from the driver takes precedence; a table is used only if
the driver has no list. Memory is that of a vNPU: the driver divides the chip's memory without its own part.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kubeletplugin.hardware.answer import LACKS, Answer, Unread
from kubeletplugin.hardware.ascend.facts import ENGINES, Chip, Resources, Template
from kubeletplugin.hardware.ascend.generations import A910, B910, C910, P310, Generation
from kubeletplugin.hardware.partitions import Scheme, VnpuTemplate, vnpu_scheme


@dataclass(frozen=True, slots=True)
class Table:
    """The templates of chips with one number of AI cores and one size of memory."""

    name: str
    resources: Resources
    templates: tuple[Template, ...]


def _table(name: str, totals: tuple[int, ...], rows: Iterable[tuple[str, tuple[int, ...]]]) -> Table:
    """A table from rows of AI cores, AI CPUs, MiB of memory and units of the media engines."""

    def engines(amounts: Iterable[int]) -> dict[str, int]:
        return {engine: amount for engine, amount in zip(ENGINES, amounts, strict=True) if amount}

    aicore, aicpu, *media = totals
    templates = (Template(template, row[0], row[1], row[2], engines(row[3:])) for template, row in rows)
    return Table(name, Resources(aicore, aicpu, engines(media)), tuple(templates))


def _inference(name: str, unit: int) -> Table:
    # Huawei's table for Atlas inference products; `unit` is an eighth of the nominal memory.
    return _table(
        name,
        (8, 7, 12, 12, 16, 8, 3),
        [
            ("vir01", (1, 1, unit, 1, 1, 2, 1, 0)),
            ("vir02_1c", (2, 1, 2 * unit, 3, 3, 4, 2, 0)),
            ("vir02", (2, 2, 2 * unit, 3, 3, 4, 2, 1)),
            ("vir04_3c_ndvpp", (4, 3, 4 * unit, 0, 0, 0, 0, 0)),
            ("vir04_3c", (4, 3, 4 * unit, 6, 6, 8, 4, 1)),
            ("vir04", (4, 4, 4 * unit, 6, 6, 8, 4, 2)),
            ("vir04_4c_dvpp", (4, 4, 4 * unit, 12, 12, 16, 8, 3)),
        ],
    )


def _training(name: str, unit: int) -> Table:
    # `unit` is a sixteenth of the memory. 30 of the 32 cores may be there; the chip says how many.
    return _table(
        name,
        (32, 14, 16, 16, 16, 8, 0),
        [
            ("vir02", (2, 1, unit, 1, 1, 1, 0, 0)),
            ("vir04", (4, 1, 2 * unit, 2, 2, 2, 1, 0)),
            ("vir08", (8, 3, 4 * unit, 4, 4, 4, 2, 0)),
            ("vir16", (16, 7, 8 * unit, 8, 8, 8, 4, 0)),
        ],
    )


P310_24G: Final = _inference("vnpu-310p", 3072)
P310_48G: Final = _inference("vnpu-310p-48g", 6144)
A910_32G: Final = _training("vnpu-910a", 2048)
A910_16G: Final = _training("vnpu-910a-16g", 1024)
CORES_24: Final = _table(
    "vnpu-910b-24-cores",
    (24, 6, 10, 2, 28, 4, 0),
    [("vir06_1c_16g", (6, 1, 15360, 2, 0, 7, 1, 0)), ("vir12_3c_32g", (12, 3, 30720, 5, 1, 14, 2, 0))],
)
CORES_20_64G: Final = _table(
    "vnpu-910b3",
    (20, 7, 9, 2, 24, 4, 0),
    [("vir05_1c_16g", (5, 1, 15360, 2, 0, 6, 1, 0)), ("vir10_3c_32g", (10, 3, 30720, 4, 1, 12, 2, 0))],
)
CORES_20_32G: Final = _table(
    "vnpu-910b4",
    (20, 7, 9, 2, 24, 4, 0),
    [
        ("vir05_1c_8g", (5, 1, 7168, 2, 0, 6, 1, 0)),
        ("vir10_3c_16g_nm", (10, 3, 14336, 0, 0, 0, 0, 0)),
        ("vir10_3c_16g", (10, 3, 14336, 4, 1, 12, 2, 0)),
        ("vir10_4c_16g_m", (10, 4, 14336, 9, 2, 24, 4, 0)),
    ],
)
TABLES: Final = (P310_24G, P310_48G, A910_32G, A910_16G, CORES_24, CORES_20_64G, CORES_20_32G)

_GIB = 1024


def table_of(generation: Generation, aicore: int, memory_mib: int) -> Table | None:
    """The table for a chip; None if there is none: chips of this generation cannot be divided, or are not known.

    Args:
        aicore: 0 if it is not known.
    """
    if generation == P310:
        return P310_48G if memory_mib > 24 * _GIB else P310_24G
    if generation == A910:
        return A910_16G if memory_mib <= 16 * _GIB else A910_32G
    if generation in (B910, C910) and aicore in (24, 25):
        return CORES_24
    if generation in (B910, C910) and aicore == 20:
        return CORES_20_32G if memory_mib <= 32 * _GIB else CORES_20_64G
    return None


def memory_of(chip: Chip, generation: Generation) -> Answer[int]:
    """The chip's memory in MiB: HBM, or DDR memory if it has none. More than 0."""
    hbm = chip.hbm_mib if generation.has_hbm else LACKS
    if isinstance(hbm, Unread) or (hbm is not LACKS and hbm > 0):
        return hbm
    return LACKS if chip.ddr_mib == 0 else chip.ddr_mib


@dataclass(frozen=True, slots=True)
class Dividable:
    """What the scheme of a chip is made of."""

    name: str
    """The chip, for warnings."""
    aicore: int
    memory_mib: int
    templates: tuple[Template, ...] | None
    """What the driver lists; None if it lists none."""
    resources: Resources


def scheme_of(chip: Chip, generation: Generation) -> tuple[Answer[Scheme], tuple[str, ...]]:
    """The scheme of the chip, and warnings for the operator.

    It is not known while a fact is not known that it is made of: the table of a chip depends on its memory and its AI
    cores, so that one fact less would make another chip of it.
    """
    templates, memory, resources = chip.templates, memory_of(chip, generation), chip.resources
    listed = None if templates is LACKS or isinstance(templates, Unread) else templates
    if listed == () or (templates is LACKS and not _may_have_table(chip, generation)):
        return LACKS, ()
    for fact in (templates, memory, resources):
        if isinstance(fact, Unread):
            return fact, ()
    known = Resources() if resources is LACKS or isinstance(resources, Unread) else resources
    size = 0 if memory is LACKS or isinstance(memory, Unread) else memory
    aicore = chip.aicore or known.aicore
    found, warnings = _scheme(Dividable(f"{chip.vdie} ({chip.name})", aicore, size, listed, known), generation)
    return found or LACKS, warnings


def _may_have_table(chip: Chip, generation: Generation) -> bool:
    """Whether there is a table for the chip, whatever memory it has."""
    unknown = chip.aicore == 0 and generation in (B910, C910)
    return unknown or table_of(generation, chip.aicore, 0) is not None


def _scheme(chip: Dividable, generation: Generation) -> tuple[Scheme | None, tuple[str, ...]]:
    table = table_of(generation, chip.aicore, chip.memory_mib)
    listed = None if chip.templates is None else _with_real_memory(chip, chip.templates)
    templates = table.templates if listed is None and table else listed or ()
    if not templates:
        return None, ()
    warnings = _disagreements(chip, table, listed) if table and listed is not None else ()
    if table and listed is None:
        warnings = (
            f"chip {chip.name}: the driver lists no vNPU templates; those of the built-in table {table.name} are "
            "offered",
        )
    totals = _totals(chip, generation, table, templates)
    # What the driver keeps of the memory is not in the names of the templates.
    nominal = totals["memory"]

    def offered(template: Template) -> VnpuTemplate:
        memory = min(template.memory_mib, chip.memory_mib * template.memory_mib // nominal)
        return VnpuTemplate(template.name, memory, _draws(template, totals))

    name = table.name if table else f"vnpu-{generation.type.lower()}"
    fitting = sorted((template for template in templates if _fits(template, totals)), key=_size)
    return vnpu_scheme(name, totals, map(offered, fitting)), warnings


def table_scheme(table: Table, memory_mib: int, generation: Generation) -> Scheme:
    """The scheme of a chip that is as its table says."""
    scheme, _ = _scheme(Dividable("", table.resources.aicore, memory_mib, table.templates, Resources()), generation)
    assert scheme
    return scheme


def draws_of(scheme: Scheme, template: str) -> Mapping[str, int]:
    """The counters that a vNPU of a template consumes; {} if the scheme does not have the template."""
    return next((part.draws for part in scheme.partitions if part.profile == template), {})


def _totals(
    chip: Dividable, generation: Generation, table: Table | None, templates: tuple[Template, ...]
) -> dict[str, int]:
    known = table.resources if table else Resources()
    aicore = chip.aicore or known.aicore
    # A chip that is not divided reports fewer AI CPUs than it has when it is: dividing turns data CPUs into AI CPUs.
    aicpu = max(chip.resources.aicpu, known.aicpu)
    engines = {engine: max(chip.resources.engines.get(engine, 0), known.engines.get(engine, 0)) for engine in ENGINES}
    memory = max(
        chip.memory_mib, *(template.memory_mib * (aicore // max(1, template.aicore)) for template in templates)
    )
    counted = {"aicore": aicore, **({"aicpu": aicpu} if generation.counts_aicpu else {}), **engines}
    return {name: amount for name, amount in counted.items() if amount} | {"memory": memory}


def _draws(template: Template, totals: Mapping[str, int]) -> dict[str, int]:
    amounts = {
        "aicore": template.aicore,
        "aicpu": template.aicpu,
        **template.engines,
        "memory": template.memory_mib,
    }
    return {name: amount for name, amount in amounts.items() if amount and name in totals}


def _size(template: Template) -> tuple[int, int, int, str]:
    return template.aicore, template.aicpu, sum(template.engines.values()), template.name


def _fits(template: Template, totals: Mapping[str, int]) -> bool:
    return template.aicore > 0 and all(amount <= totals[name] for name, amount in _draws(template, totals).items())


def _with_real_memory(chip: Dividable, templates: tuple[Template, ...]) -> tuple[Template, ...]:
    """The driver's list, with the memory that vNPUs really get.

    Drivers list the templates of 910B4 (32 GiB) for 910B4-1 (64 GiB), but divide the real memory.
    """

    def all_of(template: Template) -> int:
        return template.memory_mib * (chip.aicore // max(1, template.aicore))

    most = max((all_of(template) for template in templates), default=0)
    if not most or not chip.memory_mib or 2 * most > chip.memory_mib:
        return templates
    return tuple(
        Template(t.name, t.aicore, t.aicpu, t.memory_mib * chip.memory_mib // (32 * _GIB), t.engines) for t in templates
    )


def _disagreements(chip: Dividable, table: Table, listed: tuple[Template, ...]) -> tuple[str, ...]:
    known = {template.name: template for template in table.templates}
    found = {template.name: template for template in listed}
    names = sorted(known.keys() | found.keys())
    return tuple(
        f"chip {chip.name}: the driver's vNPU template {name!r} is {found.get(name, 'missing')}, and in "
        f"the built-in table it is {known.get(name, 'missing')}; the driver's is used"
        for name in names
        if known.get(name) != found.get(name)
    )
