"""Reads what the PlacementConfigs of a pod's claims say about its gang. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from controller.gangs.gang import Level
from controller.gangs.terms import SubGroupPolicy
from driver.errors import Fault
from driver.parameters import Configured, PlacementConfig, PlacementPolicy, TopologyLevel


@dataclass(frozen=True, slots=True)
class ConfiguredGang:
    """The fields of PlacementConfigs that concern a gang. None stands for a field that is not set.

    Attributes:
        gang: whether ``gang`` is set.
        faults: contradictions between several claims of the pod.
    """

    gang: bool = False
    name: str | None = None
    minimum: int | None = None
    levels: tuple[Level, ...] | None = None
    policy: PlacementPolicy | None = None
    moves: bool | None = None
    sub_groups: tuple[SubGroupPolicy, ...] | None = None
    faults: tuple[Fault, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is set that makes the pod a member of a gang."""
        return self.gang or self.levels is not None


NO_CONFIG = ConfiguredGang()


def config_of_claim(configured: Iterable[Configured]) -> ConfiguredGang:
    """Read the config of one claim. The last config that sets a field counts."""
    fields: dict[str, Any] = {}
    for entry in configured:
        config = entry.parameters
        if not isinstance(config, PlacementConfig):
            continue
        if config.gang is not None:
            fields |= {"gang": True, "name": config.gang.name, "minimum": config.gang.min_available}
            if config.gang.on_domain_loss is not None:
                fields["moves"] = config.gang.on_domain_loss == "move"
            if (sub_group := config.gang.sub_group) is not None:
                fields["sub_groups"] = (SubGroupPolicy((sub_group.label,), sub_group.size, sub_group.min_available),)
        if config.topology is not None:
            fields["levels"] = tuple(map(_level, config.topology))
        if (policy := config.node_policy or config.policy) != "firstFit":
            fields["policy"] = policy
    return ConfiguredGang(**fields)


def config_of_pod(claims: Sequence[tuple[str, ConfiguredGang]]) -> ConfiguredGang:
    """Merge the configs of all claims of a pod.

    Args:
        claims: key and config of each, in the order of the pod's entries.
    """
    if len(claims) == 1:
        return claims[0][1]
    faults: list[Fault] = []

    def one(field: str, read: Callable[[ConfiguredGang], Any]) -> Any:
        said = {key: value for key, config in claims if (value := read(config)) is not None}
        if len(set(said.values())) > 1:
            remedy = "let one of them say it, or all the same"
            faults.append(Fault(field, f"ResourceClaims of the pod contradict each other: {', '.join(said)}; {remedy}"))
        return next(iter(said.values()), None)

    name, minimum = (
        one("gang.name", lambda config: config.name),
        one("gang.minAvailable", lambda config: config.minimum),
    )
    levels = one("topology", lambda config: config.levels)
    moves = one("gang.onDomainLoss", lambda config: config.moves)
    sub_groups = one("gang.subGroup", lambda config: config.sub_groups)
    # Policies of claims also order the devices of each, so they may differ. The first is that of the gang.
    policy = next((config.policy for _, config in claims if config.policy is not None), None)
    any_gang = any(config.gang for _, config in claims)
    return ConfiguredGang(
        gang=any_gang,
        name=name,
        minimum=minimum,
        levels=levels,
        policy=policy,
        moves=moves,
        sub_groups=sub_groups,
        faults=tuple(faults),
    )


def _level(level: TopologyLevel) -> Level:
    return Level(
        key=level.key,
        kind="attribute" if level.attribute is not None else "nodeLabel",
        required=level.mode == "required",
        group_size=level.group_size or 0,
        wait_seconds=level.wait_seconds or 0,
        per_sub_group=level.per_sub_group,
    )
