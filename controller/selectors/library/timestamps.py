"""CEL's functions on durations and timestamps."""

from collections.abc import Callable, Mapping

from controller.selectors.cost.budget import Budget
from controller.selectors.errors import SelectorFault
from controller.selectors.values.timestamps import MAX_UNIX, MIN_UNIX, SECOND, Civil, Duration, Timestamp, zone_offset
from controller.selectors.values.types import Table, whole

_MINUTE, _HOUR, _MILLISECOND = 60 * SECOND, 3600 * SECOND, 10**6


def _duration(_: Budget, text: str) -> Duration:
    try:
        return Duration.parse(text)
    except ValueError as error:
        raise SelectorFault(str(error)) from None


def _timestamp(_: Budget, text: str) -> Timestamp:
    try:
        return Timestamp.parse(text)
    except ValueError as error:
        raise SelectorFault(str(error)) from None


def _instant(nanos: int, offset: int = 0) -> Timestamp:
    if not MIN_UNIX <= nanos // SECOND <= MAX_UNIX:
        raise SelectorFault("timestamp overflow: outside the years 1 to 9999")
    return Timestamp(nanos, offset)


def span(nanos: int) -> Duration:
    """A duration of ``nanos``.

    Raises:
        SelectorFault: it does not fit 64 bits.
    """
    return Duration(whole(nanos))


def _difference(_: Budget, a: Timestamp, b: Timestamp) -> Duration:
    seconds = whole((a.unix - b.unix) * SECOND)
    return span(seconds + a.nanos % SECOND - b.nanos % SECOND)


def _later(_: Budget, at: Timestamp, by: Duration) -> Timestamp:
    return _instant(at.nanos + by.nanos, at.offset)


def _earlier(_: Budget, at: Timestamp, by: Duration) -> Timestamp:
    return _instant(at.nanos + span(-by.nanos).nanos, at.offset)


def _truncated(unit: int) -> Callable[[Budget, Duration], int]:
    return lambda _, value: int(value.units(unit))


def _milliseconds(_: Budget, value: Duration) -> int:
    size = abs(value.nanos) // _MILLISECOND
    return -size if value.nanos < 0 else size


def _shown(part: Callable[[Civil], int]) -> Callable[..., int]:
    """A part of calendar or clock, in UTC or in the zone that is named."""

    def run(_: Budget, at: Timestamp, zone: str = "") -> int:
        try:
            return part(Civil.of(at, zone_offset(zone, at)))
        except ValueError as error:
            raise SelectorFault(str(error)) from None

    return run


def _thousandths(_: Budget, at: Timestamp, zone: str = "") -> int:
    _shown(lambda civil: civil.second)(_, at, zone)
    return at.nanos % SECOND // _MILLISECOND


_D, _T, _TS = ("google.protobuf.Duration",), ("google.protobuf.Timestamp",), ("google.protobuf.Timestamp", "string")

_PARTS: Mapping[str, Callable[..., int]] = {
    "getFullYear": _shown(lambda civil: civil.year),
    "getMonth": _shown(lambda civil: civil.month - 1),
    "getDayOfYear": _shown(lambda civil: civil.yearday),
    "getDate": _shown(lambda civil: civil.day),
    "getDayOfMonth": _shown(lambda civil: civil.day - 1),
    "getDayOfWeek": _shown(lambda civil: civil.weekday),
    "getHours": _shown(lambda civil: civil.hour),
    "getMinutes": _shown(lambda civil: civil.minute),
    "getSeconds": _shown(lambda civil: civil.second),
    "getMilliseconds": _thousandths,
}
_SPANS: Mapping[str, Callable[..., int]] = {
    "getHours": _truncated(_HOUR),
    "getMinutes": _truncated(_MINUTE),
    "getSeconds": _truncated(SECOND),
    "getMilliseconds": _milliseconds,
}

ARITHMETIC: Mapping[str, Table] = {
    "_+_": {
        (*_D, *_D): lambda _, a, b: span(a.nanos + b.nanos),
        (*_D, *_T): lambda _, a, b: _later(_, b, a),
        (*_T, *_D): _later,
    },
    "_-_": {
        (*_D, *_D): lambda _, a, b: span(a.nanos - b.nanos),
        (*_T, *_D): _earlier,
        (*_T, *_T): _difference,
    },
    "-_": {_D: lambda _, a: span(-a.nanos)},
    "int": {_D: lambda _, v: v.nanos, _T: lambda _, v: v.unix},
    "string": {_D: lambda _, v: str(v), _T: lambda _, v: str(v)},
}
"""What functions of other types mean for durations and timestamps."""

FUNCTIONS: Mapping[str, Table] = {
    "duration": {_D: lambda _, v: v, ("string",): _duration},
    "timestamp": {
        _T: lambda _, v: v,
        ("string",): _timestamp,
        ("int",): lambda _, v: _instant(v * SECOND),
    },
    **{name: {_T: part, _TS: part, **({_D: _SPANS[name]} if name in _SPANS else {})} for name, part in _PARTS.items()},
}
