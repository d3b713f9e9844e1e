"""A fake of the port to Prometheus that answers what ``cli.top.measured`` asks from points in memory."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cli.top.measured import Sample

Labels = tuple[tuple[str, str], ...]
_LOOKBACK = 300
_MEAN = re.compile(r"max by \((\w+)\) \(avg_over_time\((\w+)\[(\d+)s\]\)\) / (\S+)")
_BUSY = re.compile(r"max by \((\w+)\) \(max_over_time\(timestamp\((\w+) >= (\S+)\)\[(\d+)s:(\d+)s\]\)\)")
_FIRST = re.compile(r"min by \((\w+)\) \(min_over_time\(timestamp\((\w+)\)\[(\d+)s:(\d+)s\]\)\)")
_HOURS = re.compile(r"sum by \(namespace, type\) \(increase\((\w+)\[(\d+)s\]\)\) / 3600")


@dataclass
class FakeDatabase:
    """Series of points, by metric and labels; a point is a time (seconds since the epoch) and a value."""

    now: int
    series: dict[tuple[str, Labels], list[tuple[int, float]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def add(self, metric: str, points: Sequence[tuple[int, float]], **labels: str) -> None:
        self.series[metric, tuple(sorted(labels.items()))] = [*points]

    def query(self, expression: str) -> Sequence[Sample]:
        """See ``cli.top.measured.MetricsDatabase``."""
        self.asked.append(expression)
        if found := _MEAN.fullmatch(expression):
            label, metric, seconds, full = found.groups()
            means = {
                key: sum(values) / len(values) / float(full)
                for key, points in self._of(metric)
                if (values := [value for at, value in points if at > self.now - int(seconds)])
            }
            return self._by(label, means, largest=True)
        if found := _BUSY.fullmatch(expression):
            label, metric, least, seconds, step = found.groups()
            times = dict(self._times(metric, int(seconds), int(step), float(least)))
            return self._by(label, {key: max(found) for key, found in times.items()}, largest=True)
        if found := _FIRST.fullmatch(expression):
            label, metric, seconds, step = found.groups()
            times = dict(self._times(metric, int(seconds), int(step), None))
            return self._by(label, {key: min(found) for key, found in times.items()}, largest=False)
        if found := _HOURS.fullmatch(expression):
            metric, seconds = found.groups()
            hours: dict[tuple[str, str], float] = {}
            for key, points in self._of(metric):
                values = [value for at, value in points if at > self.now - int(seconds)]
                space = dict(key)["namespace"], dict(key)["type"]
                hours[space] = hours.get(space, 0) + (values[-1] - values[0]) / 3600
            return [Sample({"namespace": space, "type": kind}, value) for (space, kind), value in hours.items()]
        raise AssertionError(f"not known to the fake: {expression}")

    def _of(self, metric: str) -> Iterator[tuple[Labels, list[tuple[int, float]]]]:
        return ((labels, points) for (name, labels), points in self.series.items() if name == metric)

    def _times(self, metric: str, seconds: int, step: int, least: float | None) -> Iterator[tuple[Labels, list[int]]]:
        """When the expression has a value, at the steps of a subquery; of a plain series, the time of its point."""
        for key, points in self._of(metric):
            times = []
            for at in range(-(-(self.now - seconds) // step) * step, self.now + 1, step):
                last = next((point for point in reversed(points) if at - _LOOKBACK < point[0] <= at), None)
                if last and (least is None or last[1] >= least):
                    times.append(last[0] if least is None else at)
            if times:
                yield key, times

    def _by(self, label: str, values: Mapping[Labels, float], *, largest: bool) -> list[Sample]:
        found: dict[str, float] = {}
        for key, value in values.items():
            name = dict(key).get(label, "")
            found[name] = (max if largest else min)(found.get(name, value), value)
        return [Sample({label: name}, value) for name, value in found.items()]
