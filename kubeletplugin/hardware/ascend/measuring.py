"""Reads what a chip measures of itself, with DCMI or, where it cannot be loaded, with ``npu-smi``."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from driver.errors import TransientFault
from kubeletplugin.hardware.answer import Unread, if_read
from kubeletplugin.hardware.ascend.dcmi import Dcmi, DcmiError, Die
from kubeletplugin.hardware.ascend.dcmi.library import GONE, LACKING
from kubeletplugin.hardware.ascend.facts import Chip
from kubeletplugin.hardware.ascend.npusmi import Run, fields, printed_by
from kubeletplugin.hardware.port import CardGone
from kubeletplugin.hardware.readings import Measure, Readings, ask_each, together

_MEBI = 1024**2


def read_chip(dcmi: Dcmi, die: Die, *, divided: bool) -> Readings:
    """The readings of a chip.

    Args:
        divided: whether there are vNPUs on it. Then it does not say how busy the chip is as a whole.

    Raises:
        Gone: the chip is lost.
    """

    def ask(question: Callable[[Die], float | None]) -> float | None:
        try:
            return question(die)
        except DcmiError as error:
            if error.code in GONE:
                raise CardGone(f"chip {die.card}/{die.device}: {error}") from error
            if error.code in LACKING:
                return None
            raise

    def memory_used() -> float | None:
        used = ask(dcmi.high_bandwidth_memory_used)
        used = ask(dcmi.memory_used) if used is None else used
        return None if used is None else used * _MEBI

    questions: dict[Measure, Callable[[], float | None]] = {
        "utilization": lambda: _ratio(ask(dcmi.utilization)),
        "memoryUsed": memory_used,
        "temperature": lambda: ask(dcmi.temperature),
        "power": lambda: _not_negative(ask(dcmi.power)),
    }
    return ask_each({name: ask for name, ask in questions.items() if not (divided and name in _OF_ONE_TENANT)})


_OF_ONE_TENANT: Sequence[Measure] = ("utilization", "memoryUsed")


def read_with_tool(run: Run, chips: Sequence[Chip]) -> Readings:
    """The readings of a card with these chips, as ``npu-smi info -t common`` prints them.

    It knows how much of the memory is used in whole per cent.

    Raises:
        TransientFault: the tool fails.
    """
    found: dict[tuple[int, int], Readings] = {}
    for card in sorted({chip.card_id for chip in chips}):
        text = printed_by(run, ["info", "-t", "common", "-i", str(card)])
        if isinstance(text, Unread):
            raise TransientFault(text.why)
        printed = dict(_by_chip(text))
        for chip in chips:
            if chip.card_id == card:
                found[card, chip.device_id] = _of_chip(printed.get(chip.device_id, {}), chip)
    return together(list(found.values()))


def _by_chip(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The fields of each chip by its number. Those of the controller of the card have a name in place of one."""
    for part in text.split("Chip ID")[1:]:
        number, _, rest = part.lstrip(" :\t").partition("\n")
        if number.strip().isdecimal():
            yield int(number), fields(rest.partition("Chip Name")[0])


def _of_chip(printed: Mapping[str, str], chip: Chip) -> Readings:
    memory = _ratio(_number(printed, "hbm usage rate(%)", "memory usage rate(%)"))
    size = if_read(chip.hbm_mib) or if_read(chip.ddr_mib)
    values: Mapping[Measure, float | None] = {
        "utilization": _ratio(_number(printed, "aicore usage rate(%)")),
        "memoryUsed": memory * size * _MEBI if memory is not None and size else None,
        "temperature": _number(printed, "temperature(c)", "npu temperature (c)"),
        "power": _not_negative(_number(printed, "npu real-time power(w)", "power dissipation(w)")),
    }
    return Readings({measure: value for measure, value in values.items() if value is not None})


def _number(printed: Mapping[str, str], *names: str) -> float | None:
    """The first of these fields that is printed; None if none is a number."""
    text = next((printed[name] for name in names if name in printed), "")
    try:
        return float(text)
    except ValueError:
        return None


def _ratio(percent: float | None) -> float | None:
    """What is no per cent stands for a value that there is not."""
    return percent / 100 if percent is not None and 0 <= percent <= 100 else None


def _not_negative(value: float | None) -> float | None:
    return value if value is not None and value >= 0 else None
