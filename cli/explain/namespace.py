"""A namespace explained: what its claims hold, what its quotas allow, and which of its pods wait and why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli import live
from cli.fleetview import CardHolding, CardView, ViewBuilder
from cli.fleetview.cards import amount_texts, holder_json
from cli.tables import since_text, table
from cli.top.namespaces import FoundNamespaces, waiting_condition
from cli.top.question import Question
from controller.quotas import MEASURES
from driver.errors import OperatorFault
from driver.kube.api import NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES, Api, Object
from driver.names import Names
from driver.wire import Json

_MOST_CHARACTERS: Final = 100
"""Of the message of a pod in the table; ``lode explain pod/NAME`` has all of it."""


@dataclass(frozen=True, slots=True)
class WaitingForDevices:
    """A pod at our gate, and the controller's condition on it."""

    pod: str
    reason: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class ExplainedNamespace:
    """A namespace with what it holds and who waits.

    Attributes:
        row: what ``lode top namespaces`` says of it.
        held: its holdings, each with its card.
        notes: gaps in the answer.
    """

    name: str
    row: Mapping[str, Any]
    held: tuple[tuple[CardView, CardHolding], ...]
    waiting: tuple[WaitingForDevices, ...]
    notes: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether one of its pods waits."""
        return bool(self.waiting)

    def to_json(self) -> Json:
        """With the keys of docs/simulate.md."""
        return {
            "kind": "Namespace",
            "name": self.name,
            **{key: value for key, value in self.row.items() if key not in ("namespace", "waiting")},
            "held": [
                {"card": card.facts.key, "uuid": card.facts.uuid, **holder_json(card, one)} for card, one in self.held
            ],
            "waiting": [
                {"pod": one.pod, "reason": one.reason, "message": one.message, "since": one.since or None}
                for one in self.waiting
            ],
            "notes": list(self.notes),
        }

    def text(self, now: float) -> str:
        """For people; ages count from ``now`` (seconds since the epoch)."""
        parts = [f"Namespace {self.name} {self._holds()}, and {self._waits()}."]
        parts += [f"Its quotas {', '.join(self.row['quotas'])} allow {limits}." for limits in self._limits()]
        if self.held:
            header = ("CLAIM", "POD", "CARD", "DEVICE", "MEMORY", "CORES", "SINCE")
            parts.append(table(header, [_row(card, one, now) for card, one in self.held]))
        if self.waiting:
            rows = [(one.pod, one.reason, since_text(one.since, now), _short(one.message)) for one in self.waiting]
            parts.append(table(("POD", "WAITS-FOR", "SINCE", "MESSAGE"), rows))
        return "\n\n".join(parts)

    def _holds(self) -> str:
        if not self.held:
            return "holds no devices"
        cards = f"{self.row.get('cards', 0):g}"
        return f"holds {cards} {'card' if cards == '1' else 'cards'} ({self.row['memory']}, {self.row['cores']} cores)"

    def _waits(self) -> str:
        count = len(self.waiting)
        return f"{count} of its pods {'waits' if count == 1 else 'wait'} for devices" if count else "no pod of it waits"

    def _limits(self) -> Iterator[str]:
        said = [f"{self.row[f'{it}Limit']} of {it}" for it in MEASURES if f"{it}Limit" in self.row]
        if said:
            yield " and ".join(said)


def explain_namespace(api: Api, name: str, names: Names) -> ExplainedNamespace:
    """Explain the namespace.

    Raises:
        NoRights: the user may not list its claims or pods, or slices.
        OperatorFault: there is no such namespace.
    """
    notes: list[str] = []
    try:
        if live.get_one(api, NAMESPACES, name, "") is None:
            raise OperatorFault(f"there is no namespace {name!r}; correct the name")
    except live.NoRights as error:
        notes.append(f"{error.missing[0]}: it is not known whether the namespace exists")
    builder, found = ViewBuilder(names), FoundNamespaces(names)
    builder.add_claims(live.each(api, RESOURCE_CLAIMS, name))
    pods = live.list_all(api, PODS, name)
    found.add_pods(pods)
    try:
        found.add_quotas(live.each(api, RESOURCE_QUOTAS, name))
    except live.NoRights as error:
        notes.append(f"{error.missing[0]}: its quotas are not known")
    builder.add_slices(live.each(api, RESOURCE_SLICES))
    view = builder.view()
    listing = found.report(view, Question(names))
    row = next((item for item in listing.items if item["namespace"] == name), {})
    held = tuple((card, one) for card in view.cards for one in card.holdings)
    return ExplainedNamespace(name, row, held, tuple(_waiting(pods, names)), (*notes, *listing.notes))


def _waiting(pods: Sequence[Object], names: Names) -> Iterator[WaitingForDevices]:
    """Yield the pods at our gate that the controller has said something about, by name."""
    for raw in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if said := waiting_condition(raw, names):
            yield WaitingForDevices(
                raw["metadata"]["name"],
                str(said.get("reason") or ""),
                str(said.get("message") or ""),
                str(said.get("lastTransitionTime") or ""),
            )


def _row(card: CardView, one: CardHolding, now: float) -> tuple[str, ...]:
    return (
        one.claim,
        ",".join(one.users) or "<none>",
        card.facts.key,
        one.device,
        *amount_texts(one),
        since_text(one.since, now),
    )


def _short(message: str) -> str:
    return message if len(message) <= _MOST_CHARACTERS else f"{message[: _MOST_CHARACTERS - 3]}..."
