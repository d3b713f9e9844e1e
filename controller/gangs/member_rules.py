"""What the values of the members' devices have to be, as one decision takes it for granted. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation import NodeValues, PodValues
from controller.gangs.units import CoLocatedMembers, natural_sort_key

Values = frozenset[str]
_NO_VALUES: Final = Values()
_UNLIMITED: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class MemberRules:
    """What the values of the members' devices have to be.

    Attributes:
        exactly: attributes, each with the set of values that every member has to have.
        distinct: attributes of which no two units may have a value, each with values that nobody may have.
        exempt: attributes, each with the key of a pod that asks for no device with it.
    """

    exactly: tuple[tuple[str, Values], ...] = ()
    distinct: tuple[tuple[str, Values], ...] = ()
    exempt: frozenset[tuple[str, str]] = frozenset()

    def for_units(
        self, units: Sequence[CoLocatedMembers], taken: Mapping[str, Values] | None = None
    ) -> tuple[PodValues, ...]:
        """The rules for the claims of these units, in their order.

        Args:
            taken: values of other units, by attribute.
        """
        numbers: dict[str, int] = {}
        for unit in units:
            for claim in unit.claims:
                numbers[claim.uid] = len(numbers)
        found: list[PodValues] = []
        for unit in units:
            for attribute, values in self.exactly:
                for member in unit.members:
                    claims = tuple([numbers[claim.uid] for claim in member.demand.claims])
                    if claims and (attribute, member.demand.key) not in self.exempt:
                        found.append(PodValues(attribute, claims, exactly=values))
            for attribute, values in self.distinct:
                claims = tuple([numbers[claim.uid] for claim in unit.claims])
                if claims and any((attribute, one.demand.key) not in self.exempt for one in unit.members):
                    of_others = (taken or {}).get(attribute, _NO_VALUES)
                    found.append(PodValues(attribute, claims, distinct=True, taken=values | of_others))
        return tuple(found)

    def fits(self, attribute: str, values: NodeValues | None) -> int:
        """Most units that get such values of the attribute on a node; no limit if it does not matter to them."""
        most = _UNLIMITED
        if values is None:
            return most
        for name, exactly in self.exactly:
            if name == attribute:
                most = min(most, values.fits(exactly))
        for name, taken in self.distinct:
            if name == attribute:
                most = min(most, sum([value not in taken for value in values.devices]))
        return most

    def lacking(self, attribute: str, values: NodeValues) -> Values:
        """The values of the attribute that a node with these does not have."""
        return dict(self.exactly).get(attribute, _NO_VALUES).difference(values.devices)


def listed(values: Values) -> str:
    """The values as text, in their natural order."""
    names = sorted(values, key=natural_sort_key)
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
