"""The macros of the DRA environment: calls that become syntax nodes of their own."""

from dataclasses import dataclass

from driver.cel.errors import SelectorError
from driver.cel.language.syntax import Bind, Comprehension, Macro, Name, Node, OptionalMap, Select

_ONE_VARIABLE: dict[str, Macro] = {"all": "all", "exists": "exists", "exists_one": "exists_one", "filter": "filter"}
_TWO_VARIABLES: dict[str, Macro] = {
    "all": "all",
    "exists": "exists",
    "existsOne": "exists_one",
    "exists_one": "exists_one",
    "transformList": "transformList",
    "transformMap": "transformMap",
    "transformMapEntry": "transformMapEntry",
}
_FILTERED = {"transformList", "transformMap", "transformMapEntry"}
MACROS = frozenset({"has", "bind", "optMap", "optFlatMap", "map", "sortBy", *_ONE_VARIABLE, *_TWO_VARIABLES})
"""The names of all macros; ``bind`` is written ``cel.bind``."""


def function(source: str, name: str, args: tuple[Node, ...], position: int) -> Node | None:
    """The node of a global macro (``has``), or None."""
    if name != "has" or len(args) != 1:
        return None
    field = args[0]
    if not isinstance(field, Select) or field.optional or field.test:
        raise SelectorError(source, position, "the argument of has() must be a field, such as device.attributes.x")
    return Select(field.position, field.operand, field.field, test=True)


def member(source: str, target: Node, name: str, args: tuple[Node, ...], position: int) -> Node | None:
    """The node of ``target.name(args)`` if it is a macro, else None."""
    comprehension = _Comprehensions(source, position)
    if name == "bind" and len(args) == 3 and isinstance(target, Name) and target.name == "cel":
        return Bind(position, _variable(source, args[0]), args[1], args[2])
    if name in ("optMap", "optFlatMap") and len(args) == 2:
        return OptionalMap(position, target, _variable(source, args[0]), args[1], flat=name == "optFlatMap")
    if len(args) == 2 and name in _ONE_VARIABLE:
        return comprehension(_ONE_VARIABLE[name], target, args[:1], args[1])
    if len(args) in (2, 3) and name == "map":
        return comprehension("map", target, args[:1], args[-1], args[1] if len(args) == 3 else None)
    if len(args) == 2 and name == "sortBy":
        return comprehension("sortBy", target, args[:1], args[1])
    if len(args) == 3 and name in _TWO_VARIABLES:
        return comprehension(_TWO_VARIABLES[name], target, args[:2], args[2])
    if len(args) == 4 and name in _FILTERED:
        return comprehension(_TWO_VARIABLES[name], target, args[:2], args[3], args[2])
    return None


@dataclass(frozen=True, slots=True)
class _Comprehensions:
    """Builds the nodes of comprehensions at ``position`` in ``source``."""

    source: str
    position: int

    def __call__(
        self, kind: Macro, target: Node, names: tuple[Node, ...], body: Node, where: Node | None = None
    ) -> Node:
        """The node of the macro ``kind`` over ``target``.

        Raises:
            SelectorError: the names of the variables are invalid or equal.
        """
        variables = tuple(_variable(self.source, name, absolute=kind != "filter") for name in names)
        if len(set(variables)) != len(variables):
            message = f"the two variables must have different names in {kind}()"
            raise SelectorError(self.source, self.position, message)
        return Comprehension(self.position, kind, target, variables, body, where=where)


def _variable(source: str, node: Node, *, absolute: bool = False) -> str:
    """The name of the variable that ``node`` declares. cel-go accepts a leading dot in some macros; no expression can
    then refer to the variable.
    """
    if not isinstance(node, Name) or (node.absolute and not absolute):
        raise SelectorError(source, node.position, "expected the name of a variable")
    if node.name == "__result__":
        raise SelectorError(source, node.position, "reserved variable name")
    return f".{node.name}" if node.absolute else node.name
