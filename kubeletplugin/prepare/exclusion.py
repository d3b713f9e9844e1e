"""Which claims on one node exclude each other: by their devices, by how they share a card, or by variables. Pure.

* Two claims hold one device, or consume more of a counter or a capacity than there is. The allocator must prevent that
  and the API server does not check it, so the node is the last check, by the published counters and capacities.
* Claims are to share one card in different ways, or a partition that this program did not make is in the place of one.
  This is decided before any action, from the recorded claims and from the objects found on the cards.
* A container has two claims, and a device plugin has answered each of them with variables. It names in variables what a
  container has. It is asked for each claim, so each answer names the devices of its claim only, and in a container with
  two claims the last one would win.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from driver.errors import Fault, InvalidInput
from driver.model import CounterSet, Device, Result
from driver.quantity import Quantity
from kubeletplugin.hardware import Action, Card, Use
from kubeletplugin.hardware.actions import MpsDaemon, PluginAllocation, TimeSlice
from kubeletplugin.prepare.card_identity import cards_of
from kubeletplugin.prepare.checkpoint import Checkpoint, PreparedClaim
from kubeletplugin.prepare.claims import ClaimRef
from kubeletplugin.prepare.plan import ClaimPlan

ResultsByClaim = Mapping[str, Iterable[Result]]
"""The results of claims, by the claim's uid."""


def by_devices(
    uid: str, wanted: Iterable[Result], held: ResultsByClaim, devices: Mapping[str, Device], sets: Iterable[CounterSet]
) -> frozenset[str]:
    """The uids of the claims that conflict with ``wanted``; ``uid`` itself if its own results exclude each other.

    Two claims conflict if they hold the same device and are not both shares of it, if together they consume more of a
    counter than its set has, or if their shares consume more of a capacity than the device has. Results with admin
    access hold nothing and conflict with nothing.
    """
    claims: dict[str, list[Result]] = {
        owner: [result for result in results if not result.admin_access]
        for owner, results in {**held, uid: wanted}.items()
    }
    conflicts = set(_same_device(uid, claims))
    limits = {("counter", s.name, name): amount for s in sets for name, amount in s.counters.items()}
    for device in devices.values():
        limits |= {("capacity", device.name, name): capacity.value for name, capacity in device.capacity.items()}
    consumed = _consumption(claims[uid], devices)
    for source, owners in _exceeded(claims, devices, limits).items():
        # Counters that others have overdrawn among themselves do not concern this claim: it must be able to be
        # prepared.
        if source in consumed:
            conflicts |= owners - {uid} or {uid}
    return frozenset(conflicts)


def _same_device(uid: str, claims: Mapping[str, list[Result]]) -> Iterable[str]:
    for index, wanted in enumerate(claims[uid]):
        for owner, results in claims.items():
            for other in claims[uid][:index] if owner == uid else results:
                # Two shares of one device have different ids. Equal ones mean that the allocator gave the same share
                # twice.
                shared = wanted.share_id and other.share_id and wanted.share_id != other.share_id
                if wanted.device == other.device and not shared:
                    yield owner


Source = tuple[str, str, str]
"""``counter``, its set and its name; or ``capacity``, the device and its name."""


def _consumption(results: Iterable[Result], devices: Mapping[str, Device]) -> Mapping[Source, Quantity]:
    """The consumption of each source. A shared device consumes counters once, however many shares it has."""
    total: dict[Source, Quantity] = defaultdict(lambda: Quantity(0))
    counted: set[str] = set()
    for result in results:
        name = result.device.device
        for consumption in devices[name].consumes if name in devices and name not in counted else ():
            for counter, amount in consumption.counters.items():
                total["counter", consumption.counter_set, counter] += amount
        for capacity, amount in result.consumed.items() if result.share_id else ():
            total["capacity", name, capacity] += amount
        # The counters of a shared card are consumed by its device, once; the capacity by each share.
        counted.add(name)
    return total


def _exceeded(
    claims: Mapping[str, list[Result]], devices: Mapping[str, Device], limits: Mapping[Source, Quantity]
) -> Mapping[Source, set[str]]:
    """Sources whose amount is smaller than the consumption of all claims, with these claims."""
    total = _consumption([result for results in claims.values() for result in results], devices)
    by_claim = {owner: _consumption(results, devices) for owner, results in claims.items()}
    known = {(kind, name) for kind, name, _ in limits}
    return {
        source: {owner for owner, consumed in by_claim.items() if source in consumed}
        for source, amount in total.items()
        if source[:2] in known and amount > limits.get(source, Quantity(0))
    }


def by_sharing(actions: Iterable[Action], used: Iterable[str], others: Iterable[PreparedClaim]) -> Mapping[str, str]:
    """The claims that exclude the actions of a claim, by uid, each with the reason.

    MPS excludes all other uses of a card, because other processes cannot use a card in its compute mode. A card has one
    time slice for all processes.

    Args:
        actions: the actions of the claim.
        used: the uuids of the cards that the claim uses.
    """
    wanted, cards = {action.key: action for action in actions}, frozenset(used)
    found: dict[str, str] = {}
    for other in others:
        theirs = {step.action.key: step.action for step in other.steps}
        for card in sorted(cards & other.used_cards):
            mps = MpsDaemon(card).key
            if (mps in wanted) != (mps in theirs):
                found[other.plan.ref.uid] = f"card {card} can be used with MPS by all claims or by none"
        for key in sorted(wanted.keys() & theirs.keys()):
            mine, their = wanted[key], theirs[key]
            if isinstance(mine, TimeSlice) and isinstance(their, TimeSlice) and mine != their:
                found[other.plan.ref.uid] = (
                    f"card {mine.card} has one time slice for all claims: {mine.interval} is asked for, and "
                    f"{their.interval} is set"
                )
    return found


def foreign_in_the_way(use: Use, actions: Iterable[Action], foreign: Iterable[str]) -> tuple[str, ...]:
    """The foreign partitions that exclude a use: all of them for a whole card or a share, else the one in its place."""
    if use.partition is None:
        return tuple(foreign)
    wanted = frozenset(action.key for action in actions)
    return tuple(key for key in foreign if key in wanted)


def with_variables(plan: ClaimPlan, cards: Collection[Card], recorded: Checkpoint) -> Mapping[str, str]:
    """The names of other claims for which a device plugin of this one's devices has set variables, each with the
    resource. {} if this claim is prepared already.
    """
    known = recorded.claims.get(plan.ref.uid)
    if known is not None and known.state == "completed":
        return {}
    own = frozenset(cards_of(plan, cards).values())
    resources = {card.bridged.resource for card in cards if card.bridged and card.uuid in own}
    found: dict[str, str] = {}
    for claim in recorded.others(plan.ref.uid):
        for step in claim.steps if claim.plan.ref.namespace == plan.ref.namespace else ():
            action, handle = step.action, step.handle or {}
            if isinstance(action, PluginAllocation) and action.resource in resources and handle.get(action.variables):
                found[claim.plan.ref.name] = action.resource
    return found


def check_containers(
    ref: ClaimRef, others: Mapping[str, str], containers: Iterable[tuple[str, Collection[str]]]
) -> None:
    """Check that no container has the claim and another one ``with_variables``.

    Args:
        containers: those that have the claim, by their names, each with the names of all claims that it has.

    Raises:
        InvalidInput: a container has both; the pod's author must ask for all devices in one claim.
    """
    for container, names in containers:
        for name in sorted(others.keys() & names):
            message = (
                f"container {container} has this claim and {name}, and the device plugin of {others[name]} sets "
                "variables for each, of which one would be lost; ask for all devices of a container in one claim"
            )
            raise InvalidInput(str(ref), [Fault("status.reservedFor", message)])
