"""What a chip can be divided into: by the driver's list, else by the tables of Huawei's documents."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adoption.chips import CHIPS
from kubeletplugin.hardware.answer import LACKS, Answer, Unread, if_read
from kubeletplugin.hardware.ascend.facts import Chip, Resources, Template
from kubeletplugin.hardware.ascend.generations import A910, B910, C910, P310, Generation, generation_of
from kubeletplugin.hardware.ascend.templates import (
    A910_32G,
    CORES_20_32G,
    CORES_20_64G,
    CORES_24,
    P310_24G,
    TABLES,
    Table,
    draws_of,
    scheme_of,
    table_of,
    table_scheme,
)
from kubeletplugin.hardware.partitions import Scheme


def divided(chip: Chip, generation: Generation) -> tuple[Scheme | None, tuple[str, ...]]:
    """The scheme and the warnings of a chip of which all facts are known."""
    scheme, warnings = scheme_of(chip, generation)
    assert not isinstance(scheme, Unread)
    return if_read(scheme), warnings


INFERENCE = table_scheme(P310_24G, 21527, P310)
TRAINING_32 = table_scheme(A910_32G, 32768, A910)
TRAINING_30 = divided(Chip(0, 0, 0, "", "910A", aicore=30, hbm_mib=32768), A910)[0]
CORES24 = table_scheme(CORES_24, 65536, B910)
CORES20 = table_scheme(CORES_20_64G, 65536, B910)
CORES20_32G = table_scheme(CORES_20_32G, 32768, B910)


def can_exist(scheme: Scheme | None, templates: list[str]) -> bool:
    """Whether the counters cover all of these at once, and there are enough slots."""
    assert scheme
    known = Counter(part.profile for part in scheme.partitions)
    used: Counter[str] = Counter()
    for template in templates:
        used.update(draws_of(scheme, template))
    enough = all(known[template] >= count for template, count in Counter(templates).items())
    return enough and all(amount <= scheme.counters[counter] for counter, amount in used.items())


@pytest.mark.parametrize(
    ("scheme", "templates", "possible"),
    [
        # Atlas inference products: seven AI CPUs and the media engines limit the combinations.
        (INFERENCE, ["vir01"] * 7, True),
        (INFERENCE, ["vir01"] * 8, False),
        (INFERENCE, ["vir02"] * 3 + ["vir02_1c"], True),
        (INFERENCE, ["vir02"] * 4, False),
        (INFERENCE, ["vir02"] * 3 + ["vir01"], True),
        (INFERENCE, ["vir02"] * 3 + ["vir01"] * 2, False),
        (INFERENCE, ["vir02_1c"] * 4, True),
        (INFERENCE, ["vir01"] * 6 + ["vir02_1c"], True),
        (INFERENCE, ["vir01"] * 6 + ["vir02"], False),
        (INFERENCE, ["vir04"] * 2, False),
        (INFERENCE, ["vir04", "vir04_3c"], True),
        (INFERENCE, ["vir04_3c"] * 2, True),
        (INFERENCE, ["vir04", "vir02", "vir02_1c"], True),
        (INFERENCE, ["vir04", "vir02", "vir01"], True),
        (INFERENCE, ["vir04_3c", "vir02", "vir02"], True),
        (INFERENCE, ["vir04", "vir02", "vir02"], False),
        (INFERENCE, ["vir04_4c_dvpp", "vir04_3c_ndvpp"], True),
        (INFERENCE, ["vir04_4c_dvpp", "vir04_3c"], False),
        (INFERENCE, ["vir04_4c_dvpp", "vir02_1c"], False),
        (INFERENCE, ["vir04_4c_dvpp", "vir01"], False),
        (INFERENCE, ["vir04_3c_ndvpp"] * 2, True),
        # 910A: only the AI cores limit; its 14 AI CPUs do not.
        (TRAINING_32, ["vir02"] * 16, True),
        (TRAINING_32, ["vir02"] * 17, False),
        (TRAINING_32, ["vir16"] * 2, True),
        (TRAINING_32, ["vir16", "vir08", "vir04", "vir02", "vir02"], True),
        (TRAINING_32, ["vir16", "vir08", "vir08", "vir02"], False),
        (TRAINING_30, ["vir02"] * 15, True),
        (TRAINING_30, ["vir02"] * 16, False),
        (TRAINING_30, ["vir16"] * 2, False),
        (TRAINING_30, ["vir16", "vir08", "vir04", "vir02"], True),
        # 910B with 24 AI cores and six AI CPUs.
        (CORES24, ["vir12_3c_32g"] * 2, True),
        (CORES24, ["vir06_1c_16g"] * 4, True),
        (CORES24, ["vir12_3c_32g"] + ["vir06_1c_16g"] * 2, True),
        (CORES24, ["vir12_3c_32g"] + ["vir06_1c_16g"] * 3, False),
        # 910B with 20 AI cores.
        (CORES20, ["vir10_3c_32g"] * 2, True),
        (CORES20, ["vir05_1c_16g"] * 4, True),
        (CORES20, ["vir10_3c_32g"] + ["vir05_1c_16g"] * 2, True),
        (CORES20, ["vir05_1c_16g"] * 5, False),
        (CORES20_32G, ["vir10_3c_16g"] * 2, True),
        (CORES20_32G, ["vir10_4c_16g_m", "vir10_3c_16g_nm"], True),
        (CORES20_32G, ["vir10_4c_16g_m", "vir10_3c_16g"], False),
        (CORES20_32G, ["vir10_4c_16g_m", "vir05_1c_8g"], False),
        (CORES20_32G, ["vir10_4c_16g_m"] * 2, False),
        (CORES20_32G, ["vir10_3c_16g_nm"] * 2, True),
        (CORES20_32G, ["vir10_3c_16g", "vir05_1c_8g", "vir05_1c_8g"], True),
        (CORES20_32G, ["vir05_1c_8g"] * 4, True),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else getattr(value, "name", None),
)
def test_the_combination_rules_of_the_manuals_hold(scheme: Scheme, templates: list[str], possible: bool) -> None:
    assert can_exist(scheme, templates) is possible


@pytest.mark.parametrize(
    ("name", "board", "chips", "generation"),
    [
        ("310P3", 0, 1, "310P"),
        ("310P", 0, 2, "310P"),
        ("I2", 0, 1, "310P"),
        ("310B1", 0, 1, "310B"),
        ("910A", 0, 1, "910A"),
        ("910ProB", 0, 1, "910A"),
        ("910PremiumA", 0, 1, "910A"),
        ("910B1", 0, 1, "910B"),
        ("910B2C", 0, 1, "910B"),
        ("910B4-1", 0, 1, "910B"),
        ("Ascend 910B3", 0, 1, "910B"),
        ("A2G1", 0, 1, "910B"),
        ("Ascend910", 0xB1, 2, "910C"),
        ("910_9382", 0xB3, 2, "910C"),
        ("Ascend910_9382", -1, 2, "910C"),
        ("Ascend910", -1, 2, "910C"),
        ("950PR", 0, 1, "950PR"),
        ("", 0, 1, "unknown"),
    ],
)
def test_a_chip_is_of_the_generation_that_its_name_and_board_say(
    name: str, board: int, chips: int, generation: str
) -> None:
    found = generation_of(name, board, chips)
    assert not isinstance(found, Unread)
    assert found.type == generation


@pytest.mark.parametrize("name", ["910B3", "Ascend910", "910A"])
def test_a_chip_that_may_be_one_of_two_generations_is_of_none_until_its_board_is_known(name: str) -> None:
    unread = Unread("board_info: timeout (code -8006)")
    assert generation_of(name, unread, 1) == unread
    assert generation_of(name, unread, 2) == C910, "of the 910s, only this one has two chips"
    assert generation_of("310P3", unread, 1) == P310


@pytest.mark.parametrize(
    ("generation", "aicore", "memory", "table"),
    [
        (P310, 8, 21527, "vnpu-310p"),
        (P310, 8, 44280, "vnpu-310p-48g"),
        (A910, 32, 32768, "vnpu-910a"),
        (A910, 30, 16384, "vnpu-910a-16g"),
        (B910, 24, 65536, "vnpu-910b-24-cores"),
        (B910, 25, 65536, "vnpu-910b-24-cores"),
        (B910, 20, 65536, "vnpu-910b3"),
        (B910, 20, 32768, "vnpu-910b4"),
        (C910, 24, 65536, "vnpu-910b-24-cores"),
        (C910, 20, 65536, "vnpu-910b3"),
        (B910, 0, 65536, None),
        (Generation("950PR"), 32, 65536, None),
    ],
)
def test_the_table_follows_from_generation_cores_and_memory(
    generation: Generation, aicore: int, memory: int, table: str | None
) -> None:
    found = table_of(generation, aicore, memory)
    assert (found and found.name) == table


NOTHING_SAID = Resources()


def chip(
    table: Table, memory_mib: int, templates: Answer[tuple[Template, ...]] = LACKS, resources: Resources = NOTHING_SAID
) -> Chip:
    own = Chip(0, 0, 0, "VDIE", "910B3", aicore=table.resources.aicore, hbm_mib=memory_mib)
    return replace(own, templates=templates, resources=resources)


def test_a_driver_that_lists_what_the_table_says_gives_the_same_scheme_and_no_warning() -> None:
    listed = chip(CORES_20_64G, 65536, templates=tuple(reversed(CORES_20_64G.templates)))
    assert divided(listed, B910) == (CORES20, ())


def test_the_drivers_list_counts_more_than_the_table_and_the_difference_is_told() -> None:
    own = Template("vir04_1c_12g", 4, 1, 12288)
    half = replace(CORES_20_64G.templates[1], aicpu=2)
    scheme, warnings = divided(chip(CORES_20_64G, 65536, templates=(half, own)), B910)
    assert scheme
    assert {part.profile for part in scheme.partitions} == {"vir04_1c_12g", "vir10_3c_32g"}
    assert draws_of(scheme, "vir10_3c_32g")["aicpu"] == 2
    assert [next(name for name in ("vir04", "vir05", "vir10") if name in warning) for warning in warnings] == [
        "vir04",
        "vir05",
        "vir10",
    ]
    assert all("VDIE" in warning and "driver" in warning for warning in warnings)


def test_a_chip_that_is_not_known_is_divided_as_its_driver_says() -> None:
    half = Template("vir16_4c", 16, 4, 32768)
    listed = Chip(0, 0, 0, "V", "960", aicore=32, hbm_mib=65536, templates=(half,), resources=Resources(32, 8))
    scheme, warnings = divided(listed, Generation("960"))
    assert scheme
    assert (scheme.name, len(scheme.partitions), warnings) == ("vnpu-960", 2, ())


def test_a_chip_without_templates_cannot_be_divided() -> None:
    assert divided(Chip(0, 0, 0, "V", "960", aicore=32, hbm_mib=65536), Generation("960")) == (None, ())
    assert divided(chip(CORES_20_64G, 65536, templates=()), B910) == (None, ())


TIMEOUT = Unread("timeout (code -8006)")


@pytest.mark.parametrize("fact", ["hbm_mib", "templates", "resources"])
def test_a_chip_of_which_a_fact_is_not_known_gets_no_table_of_another_chip(fact: str) -> None:
    whole = chip(CORES_20_64G, 65536, templates=CORES_20_64G.templates, resources=Resources(20, 7))
    parts: dict[str, Answer[object]] = {fact: TIMEOUT}
    assert scheme_of(replace(whole, **parts), B910) == (TIMEOUT, ())  # type: ignore[arg-type]


def test_a_fact_that_no_scheme_is_made_of_is_not_needed() -> None:
    chip_310b = Chip(0, 0, 0, "V", "310B1", aicore=1, hbm_mib=TIMEOUT, ddr_mib=TIMEOUT, resources=TIMEOUT)
    assert scheme_of(chip_310b, Generation("310B", has_hbm=False)) == (LACKS, ())
    chip_310p = Chip(0, 0, 0, "V", "310P3", aicore=8, hbm_mib=TIMEOUT, ddr_mib=21527)
    assert divided(chip_310p, P310)[0] == INFERENCE


@pytest.mark.parametrize("table", [CORES_20_64G, CORES_20_32G], ids=lambda table: table.name)
def test_requests_of_other_systems_find_a_part_of_a_910b4_1_by_the_names_of_every_driver(table: Table) -> None:
    scheme, _ = divided(chip(CORES_20_64G, 65536, templates=table.templates), B910)
    (wanted,) = [each for each in CHIPS if each.resource == "huawei.com/Ascend910B4-1"]
    assert scheme
    for least, names in wanted.templates.items():
        found = [part for part in scheme.partitions if part.profile in names]
        assert found
        assert all(least * 0.85 < part.memory_mib <= least for part in found), "less what the driver keeps"


def test_drivers_that_list_the_templates_of_half_the_memory_divide_all_of_it() -> None:
    scheme, warnings = divided(chip(CORES_20_64G, 65536, templates=CORES_20_32G.templates), B910)
    assert scheme
    memory = {part.profile: part.memory_mib for part in scheme.partitions}
    assert memory["vir05_1c_8g"] == 14336
    assert memory["vir10_3c_16g"] == 28672
    assert warnings


def test_a_chip_that_is_not_divided_reports_fewer_ai_cpus_than_it_has_to_divide() -> None:
    idle = chip(CORES_20_64G, 65536, resources=Resources(20, 6, {"vpc": 9}))
    assert divided(idle, B910)[0] == CORES20


def test_a_vnpu_gets_no_more_than_its_part_of_the_memory_that_programs_can_use() -> None:
    memory = {part.profile: part.memory_mib for part in INFERENCE.partitions}
    assert memory["vir01"] == 21527 // 8
    assert memory["vir04"] == 21527 // 2


def test_small_templates_are_offered_first() -> None:
    order = list(dict.fromkeys(part.profile for part in INFERENCE.partitions))
    assert order == ["vir01", "vir02_1c", "vir02", "vir04_3c_ndvpp", "vir04_3c", "vir04", "vir04_4c_dvpp"]


@given(st.sampled_from(TABLES), st.data())
def test_whatever_can_exist_at_once_fits_the_chip(table: Table, data: st.DataObject) -> None:
    templates = data.draw(st.lists(st.sampled_from(table.templates), max_size=16))
    generation = {"vnpu-310": P310, "vnpu-910a": A910}.get(table.name[:9].rstrip("p"), B910)
    scheme = table_scheme(table, 16384 * max(1, table.templates[-1].memory_mib // 8192), generation)
    if can_exist(scheme, [template.name for template in templates]):
        assert sum(template.aicore for template in templates) <= table.resources.aicore
        for engine, amount in table.resources.engines.items():
            assert sum(template.engines.get(engine, 0) for template in templates) <= amount
