"""The functions on durations and timestamps."""

from collections.abc import Callable, Mapping

from driver.cel.cost.budget import CostBudget
from driver.cel.errors import SelectorFault
from driver.cel.values.runtime import Overloads, checked_int
from driver.cel.values.timestamps import MAX_UNIX, MIN_UNIX, SECOND, Civil, Duration, Timestamp, zone_offset

_MINUTE, _HOUR, _MILLISECOND = 60 * SECOND, 3600 * SECOND, 10**6


def _duration(_: CostBudget, text: str) -> Duration:
    try:
        return Duration.parse(text)
    except ValueError as error:
        raise SelectorFault(str(error)) from None


def _timestamp(_: CostBudget, text: str) -> Timestamp:
    try:
        return Timestamp.parse(text)
    except ValueError as error:
        raise SelectorFault(str(error)) from None


def _instant(nanos: int, offset: int = 0) -> Timestamp:
    if not MIN_UNIX <= nanos // SECOND <= MAX_UNIX:
        raise SelectorFault("timestamp overflow: outside the years 1 to 9999")
    return Timestamp(nanos, offset)


def duration_of(nanos: int) -> Duration:
    """A duration of ``nanos``.

    Raises:
        SelectorFault: it does not fit 64 bits.
    """
    return Duration(checked_int(nanos))


def _difference(_: CostBudget, a: Timestamp, b: Timestamp) -> Duration:
    seconds = checked_int((a.unix - b.unix) * SECOND)
    return duration_of(seconds + a.nanos % SECOND - b.nanos % SECOND)


def _plus(_: CostBudget, instant: Timestamp, duration: Duration) -> Timestamp:
    return _instant(instant.nanos + duration.nanos, instant.offset)


def _minus(_: CostBudget, instant: Timestamp, duration: Duration) -> Timestamp:
    return _instant(instant.nanos + duration_of(-duration.nanos).nanos, instant.offset)


def _truncated(unit: int) -> Callable[[CostBudget, Duration], int]:
    return lambda _, value: int(value.units(unit))


def _milliseconds(_: CostBudget, value: Duration) -> int:
    size = abs(value.nanos) // _MILLISECOND
    return -size if value.nanos < 0 else size


def _civil_part(part: Callable[[Civil], int]) -> Callable[..., int]:
    """A part of a date or time, in UTC or in a named time zone."""

    def run(_: CostBudget, instant: Timestamp, zone: str = "") -> int:
        try:
            return part(Civil.at(instant, zone_offset(zone, instant)))
        except ValueError as error:
            raise SelectorFault(str(error)) from None

    return run


def _millisecond_part(_: CostBudget, instant: Timestamp, zone: str = "") -> int:
    _civil_part(lambda civil: civil.second)(_, instant, zone)
    return instant.nanos % SECOND // _MILLISECOND


_D, _T, _TS = ("google.protobuf.Duration",), ("google.protobuf.Timestamp",), ("google.protobuf.Timestamp", "string")

_PARTS: Mapping[str, Callable[..., int]] = {
    "getFullYear": _civil_part(lambda civil: civil.year),
    "getMonth": _civil_part(lambda civil: civil.month - 1),
    "getDayOfYear": _civil_part(lambda civil: civil.yearday),
    "getDate": _civil_part(lambda civil: civil.day),
    "getDayOfMonth": _civil_part(lambda civil: civil.day - 1),
    "getDayOfWeek": _civil_part(lambda civil: civil.weekday),
    "getHours": _civil_part(lambda civil: civil.hour),
    "getMinutes": _civil_part(lambda civil: civil.minute),
    "getSeconds": _civil_part(lambda civil: civil.second),
    "getMilliseconds": _millisecond_part,
}
_DURATION_PARTS: Mapping[str, Callable[..., int]] = {
    "getHours": _truncated(_HOUR),
    "getMinutes": _truncated(_MINUTE),
    "getSeconds": _truncated(SECOND),
    "getMilliseconds": _milliseconds,
}

ARITHMETIC: Mapping[str, Overloads] = {
    "_+_": {
        (*_D, *_D): lambda _, a, b: duration_of(a.nanos + b.nanos),
        (*_D, *_T): lambda _, a, b: _plus(_, b, a),
        (*_T, *_D): _plus,
    },
    "_-_": {
        (*_D, *_D): lambda _, a, b: duration_of(a.nanos - b.nanos),
        (*_T, *_D): _minus,
        (*_T, *_T): _difference,
    },
    "-_": {_D: lambda _, a: duration_of(-a.nanos)},
    "int": {_D: lambda _, v: v.nanos, _T: lambda _, v: v.unix},
    "string": {_D: lambda _, v: str(v), _T: lambda _, v: str(v)},
}
"""The operators and conversions for durations and timestamps."""

FUNCTIONS: Mapping[str, Overloads] = {
    "duration": {_D: lambda _, v: v, ("string",): _duration},
    "timestamp": {
        _T: lambda _, v: v,
        ("string",): _timestamp,
        ("int",): lambda _, v: _instant(v * SECOND),
    },
    **{
        name: {_T: part, _TS: part, **({_D: _DURATION_PARTS[name]} if name in _DURATION_PARTS else {})}
        for name, part in _PARTS.items()
    },
}
