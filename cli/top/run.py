"""The work of ``lode top``: read the subject, print its report, once or again and again."""

import argparse
import gc
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cli import live
from cli.fleetview import FleetView, read_fleet
from cli.top import cards, claims, costs, gangs, namespaces, nodes
from cli.top.measured import card_hours, measure
from cli.top.prices import PriceTable, price_table
from cli.top.prometheus import PrometheusServer
from cli.top.question import NO_PRICES, Question
from cli.top.report import Listing, TableColumn, ordered, rendered
from driver.clock import Clock, SystemClock
from driver.errors import Fault, InvalidInput, OperatorFault
from driver.kube.api import NODES, Api
from driver.names import Names

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_FORM: Final = re.compile(r"(?:\d{1,6}[smhdw])+", re.ASCII)
_PART: Final = re.compile(r"(\d+)([smhdw])", re.ASCII)
_MOST: Final = 366 * 86400


def seconds_of(option: str, text: str) -> int:
    """Return the seconds of a duration such as ``90s``, ``2h``, ``1h30m`` or ``7d``.

    Raises:
        OperatorFault: it is no duration, or none between a minute and a year.
    """
    total = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(text)) if _FORM.fullmatch(text) else 0
    if not 60 <= total <= _MOST:
        raise OperatorFault(f"{option} {text!r}: write a duration from 1m to 366d, such as 2h or 7d")
    return total


Report = Callable[[Api, Question], Listing]
"""Reads a subject."""


def _by_card(report_on: Callable[[FleetView, Question, Collection[str] | None], Listing]) -> Report:
    """A report on the cards of all nodes, or of those with labels. Raises the errors of ``read_fleet``."""

    def report(api: Api, question: Question) -> Listing:
        view = read_fleet(api, question.names)
        return report_on(view, question, live.labelled(api, NODES, question.selector))

    return report


SUBJECTS: Final[Mapping[str, tuple[Sequence[TableColumn], Report]]] = {
    "nodes": (nodes.COLUMNS, _by_card(nodes.report_on)),
    "cards": (cards.COLUMNS, _by_card(cards.report_on)),
    "claims": (claims.COLUMNS, claims.report),
    "namespaces": (namespaces.COLUMNS, namespaces.report),
    "gangs": (gangs.COLUMNS, gangs.report),
    "costs": (costs.COLUMNS, costs.report),
}
_VERBS: Final = {"nodes": "publish", "cards": "are", "gangs": "ask for", "costs": "are known of"}
_PAUSE_SECONDS: Final = 5.0
"""Between two reports of ``--watch``, or as long as the last one took to read: half of the time nothing is asked."""
_CLEAR: Final = "\x1b[H\x1b[2J"
"""Moves a terminal to its first line and clears it."""


def run(arguments: argparse.Namespace) -> int:
    """Print what the command's arguments ask for; the exit status."""
    # A fleet is millions of objects without cycles. The search for cycles would take half the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with live.cluster(arguments.kubeconfig, arguments.context) as (api, current):
            question = _question(arguments, current)
            if arguments.watch:
                _watch(api, question, arguments, SystemClock())
            else:
                _print(*_listing(api, question, arguments), question, arguments)
    finally:
        if collecting:
            gc.enable()
    return 0


def _question(arguments: argparse.Namespace, current: str) -> Question:
    spaced = "namespace" in arguments and not arguments.all_namespaces
    return Question(
        names=Names(arguments.driver),
        namespace=(arguments.namespace or current) if spaced else "",
        selector=getattr(arguments, "selector", ""),
        prices=read_prices(arguments.prices) if "prices" in arguments else NO_PRICES,
        by_workload="by" in arguments and arguments.by == "workload",
        only=tuple(arguments.only),
    )


def read_prices(path: str) -> PriceTable:
    """Return the table of prices in a file.

    Raises:
        InvalidInput: the file cannot be read, or is no table of prices; carries every fault.
    """
    import yaml  # takes long to import, and other subjects need none

    try:
        raw = yaml.safe_load(Path(path).read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidInput(f"prices in {path}", [Fault("", f"cannot be read: {error}; name a YAML file")]) from error
    return price_table(raw, path)


def columns_of(subject: str, question: Question) -> Sequence[TableColumn]:
    """Return the columns of a subject; costs have those of workloads and of a window only if these are asked for."""
    hidden = [] if question.by_workload else ["workload"]
    if subject == "costs" and question.hours is None:
        hidden += ["cardHours", "cost"]
    return [one for one in SUBJECTS[subject][0] if one.key not in hidden]


def measured(question: Question, arguments: argparse.Namespace) -> Question:
    """Return the question with what Prometheus knows, if one is named.

    Raises:
        OperatorFault: an option needs one; a duration or the URL is none; it does not answer.
    """
    url, since, idle = (getattr(arguments, name, "") for name in ("prometheus", "since", "idle"))
    if not url:
        for option, value in (("--since", since), ("--idle", idle)):
            if value:
                raise OperatorFault(f"{option} needs --prometheus URL: nobody else knows what cards did")
        return question
    if question.by_workload:
        raise OperatorFault("--by workload: nobody knows what workloads held before; leave out --prometheus")
    seconds = seconds_of("--since", since or "1h")
    idle_seconds = seconds_of("--idle", idle) if idle else 0
    server = PrometheusServer(url, _token(arguments.prometheus_token_file))
    if arguments.subject in ("namespaces", "costs"):
        return replace(question, hours=card_hours(server, seconds))
    found = measure(server, max(seconds, idle_seconds), time.time())
    return replace(question, measured=found, idle_seconds=idle_seconds)


def _token(path: str) -> str:
    try:
        return Path(path).read_text().strip() if path else ""
    except (OSError, ValueError) as error:
        raise OperatorFault(f"--prometheus-token-file {path}: cannot be read: {error}; name another file") from error


def _listing(api: Api, question: Question, arguments: argparse.Namespace) -> tuple[Listing, Sequence[TableColumn]]:
    """The rows, and the columns of their table."""
    asked = measured(question, arguments)
    found = SUBJECTS[arguments.subject][1](api, asked)
    columns = columns_of(arguments.subject, asked)
    return (ordered(found, columns, arguments.sort_by) if arguments.sort_by else found), columns


def _watch(api: Api, question: Question, arguments: argparse.Namespace, clock: Clock) -> None:
    """Print the report again and again; on a terminal in the place of the one before. Ends when it is interrupted."""
    try:
        while True:
            begun = clock.monotonic()
            found = _listing(api, question, arguments)
            spent = clock.monotonic() - begun
            sys.stdout.write(_CLEAR if sys.stdout.isatty() else "")
            _print(*found, question, arguments)
            sys.stdout.flush()
            clock.sleep(max(_PAUSE_SECONDS, spent))
    except KeyboardInterrupt:
        return


def _print(found: Listing, columns: Sequence[TableColumn], question: Question, arguments: argparse.Namespace) -> None:
    for note in found.notes:
        sys.stderr.write(f"note: {note}\n")
    text = rendered(found, columns, arguments.output, headers=not arguments.no_headers)
    if text:
        print(text)
    elif getattr(arguments, "idle", ""):
        sys.stderr.write("No card that claims hold has done nothing for so long.\n")
    else:
        where = f"in namespace {question.namespace}" if question.namespace else "in the cluster"
        verb = _VERBS.get(arguments.subject, "hold")
        sys.stderr.write(f"No {arguments.subject} {verb} devices of {arguments.driver} {where}.\n")
