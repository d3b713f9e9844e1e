"""Durations and timestamps of CEL: nanoseconds in 64 bits, and instants of the years 1 to 9999.

Texts are read and written as by Go's time package, including what it accepts beyond the documented formats.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

SECOND: Final = 10**9
"""Nanoseconds."""
MIN_UNIX: Final = -62_135_596_800
"""0001-01-01T00:00:00Z in seconds of Unix time."""
MAX_UNIX: Final = 253_402_300_799
"""9999-12-31T23:59:59Z in seconds of Unix time."""

_UNITS = {
    "ns": 1,
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs"), 10**3),
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_TERM = re.compile(r"(\d*)(?:\.(\d*))?([^\d.]+)", re.ASCII)
_LARGEST = 1 << 63
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY = 86_400
_EPOCH, _Y2000 = datetime(1970, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC)
_DAYS_TO_2000 = (_Y2000 - _EPOCH).days
# The calendar repeats after 400 years. That helps with the years beyond 1 to 9999, which datetime does not support and
# the offset of a time zone can lead to.
_DAYS_OF_400_YEARS = 146_097


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time that fits 64 bits of nanoseconds."""

    nanos: int

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """The duration written in ``text``, such as ``1h30m`` or ``-1.5s``.

        Raises:
            ValueError: it is not a duration, or too long.
        """
        sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
        if rest == "0":
            return cls(0)
        total = position = 0
        while position < len(rest) or not rest:
            term = _TERM.match(rest, position)
            if not term or term[3] not in _UNITS or not (term[1] or term[2]):
                raise ValueError(f"not a duration such as 1h30m or 1.5s: {text!r}")
            part = _nanos(term[1], term[2] or "", _UNITS[term[3]])
            total = (total + part) % (2 * _LARGEST)  # Go adds in 64 bits and checks each sum
            position = term.end()
            if part > _LARGEST or total > _LARGEST:
                raise ValueError(f"longer than the about 292 years of a duration: {text!r}")
        if total == _LARGEST and sign != "-":
            raise ValueError(f"longer than the about 292 years of a duration: {text!r}")
        return cls(-total if sign == "-" else total)

    @property
    def seconds(self) -> float:
        """Seconds with their fraction, as the closest double."""
        return self.units(SECOND)

    def units(self, unit: int) -> float:
        """This duration in units of ``unit`` nanoseconds."""
        whole, rest = divmod(abs(self.nanos), unit)
        return (whole + rest / unit) * (-1 if self.nanos < 0 else 1)

    def __str__(self) -> str:
        seconds = self.seconds
        digits = format(Decimal(repr(seconds)), "f")
        return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}s"


def _nanos(whole: str, fraction: str, unit: int) -> int:
    """The nanoseconds of one term. The digits of a fraction count as far as they fit 64 bits, as in Go."""
    if len(whole.lstrip("0")) > 20:
        return _LARGEST + 1
    value = int(whole or "0") * unit
    digits, scale = 0, 1.0
    for digit in fraction[:40]:
        if digits > (_LARGEST - 1) // 10 or digits * 10 + int(digit) > _LARGEST:
            break
        digits, scale = digits * 10 + int(digit), scale * 10
    return value + int(digits * (unit / scale))


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """An instant, in nanoseconds since 1970-01-01T00:00:00Z. Only its text shows the offset it was written with."""

    nanos: int
    offset: int = field(default=0, compare=False)

    @classmethod
    def parse(cls, text: str) -> "Timestamp":
        """The instant written in ``text`` by RFC 3339.

        Raises:
            ValueError: it is not a timestamp, or outside the years 1 to 9999.
        """
        parts = _RFC3339.fullmatch(text)
        if not parts:
            raise ValueError(f"not a timestamp such as 2026-01-31T12:00:00Z: {text!r}")
        year, month, day, hour, minute, second = (int(parts[i]) for i in range(1, 7))
        distance = (int(parts[9]) * 60 + int(parts[10])) * 60 if parts[8] else 0
        exists = 1 <= month <= 12 and 1 <= day <= _days(year, month) and hour < 24 and minute < 60 and second < 60
        if not exists or (parts[8] and (int(parts[9]) > 24 or int(parts[10]) > 60)):
            raise ValueError(f"a date, time or offset that does not exist: {text!r}")
        offset = -distance if parts[8] == "-" else distance
        seconds = days_of(year, month, day) * _DAY + hour * 3600 + minute * 60 + second - offset
        if not MIN_UNIX <= seconds <= MAX_UNIX:
            raise ValueError(f"outside the years 1 to 9999: {text!r}")
        return cls(seconds * SECOND + int((parts[7] or "0")[:9].ljust(9, "0")), offset)

    @property
    def unix(self) -> int:
        """Whole seconds since 1970-01-01T00:00:00Z."""
        return self.nanos // SECOND

    def __str__(self) -> str:
        civil = Civil.at(self, self.offset)
        fraction = f".{self.nanos % SECOND:09d}".rstrip("0") if self.nanos % SECOND else ""
        date = (
            f"{civil.year:04d}-{civil.month:02d}-{civil.day:02d}T{civil.hour:02d}:{civil.minute:02d}:{civil.second:02d}"
        )
        if self.offset == 0:
            return f"{date}{fraction}Z"
        minutes = abs(self.offset) // 60
        return f"{date}{fraction}{'-' if self.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


@dataclass(frozen=True, slots=True)
class Civil:
    """An instant as calendar and clock show it in one time zone."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int
    """0 is Sunday."""
    yearday: int
    """0 is January 1."""

    @classmethod
    def at(cls, instant: Timestamp, offset: int) -> "Civil":
        """``instant`` in a time zone that is ``offset`` seconds ahead of UTC."""
        days, clock = divmod(instant.unix + offset, _DAY)
        cycles, rest = divmod(days - _DAYS_TO_2000, _DAYS_OF_400_YEARS)
        date = _Y2000 + timedelta(days=rest)
        hour, minute, second = clock // 3600, clock // 60 % 60, clock % 60
        yearday = date.timetuple().tm_yday - 1
        weekday = (days + 4) % 7
        day = date.year + 400 * cycles, date.month, date.day
        return cls(*day, hour, minute, second, weekday=weekday, yearday=yearday)


def _days(year: int, month: int) -> int:
    """The number of days of a month."""
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if leap else _MONTH_DAYS[month - 1]


def days_of(year: int, month: int, day: int) -> int:
    """The days from 1970-01-01 to a date of any year of the Gregorian calendar."""
    cycles, inner = divmod(year - 2000, 400)
    return (datetime(2000 + inner, month, day, tzinfo=UTC) - _EPOCH).days + cycles * _DAYS_OF_400_YEARS


def zone_offset(name: str, instant: Timestamp) -> int:
    """The seconds by which a time zone is ahead of UTC at ``at``: one of the IANA database, or an offset as ``-07:30``.

    Raises:
        ValueError: the time zone is not known.
    """
    if ":" in name:
        return _fixed_offset(name)
    if name in ("", "UTC", "Local"):
        return 0
    seconds = min(max(instant.unix, MIN_UNIX + _DAY), MAX_UNIX - _DAY)  # datetime cannot leave the years 1 to 9999
    offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(_zone(name)).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _fixed_offset(name: str) -> int:
    hours, _, minutes = name.partition(":")
    if not all(re.fullmatch(r"[+-]?\d{1,19}", part, re.ASCII) for part in (hours, minutes)):
        raise ValueError(f"not an offset from UTC such as +02:00: {name!r}")
    if max(abs(int(hours)), abs(int(minutes))) >= _LARGEST:
        raise ValueError(f"not an offset from UTC such as +02:00: {name!r}")
    total = int(hours) * 60 + (-int(minutes) if name[0] == "-" else int(minutes))
    wrapped = (total * 60 * SECOND + _LARGEST) % (2 * _LARGEST) - _LARGEST
    return int(Duration(wrapped).seconds)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name!r}; write a name such as Europe/Berlin or an offset") from None
