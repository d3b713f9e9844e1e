"""The static types of CEL, and which type is assignable to which. The check also binds type parameters.

Source: ``checker/types.go`` of cel-go. Its rules, including the order of bindings, are kept as they are.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Type:
    """A type. ``kind`` is its name, ``of`` its parameters. A type parameter has kind ``?`` and its name in ``name``."""

    kind: str
    of: tuple["Type", ...] = ()
    name: str = ""
    open: bool = field(init=False, compare=False, repr=False)
    """Whether it contains type parameters."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "open", self.kind == "?" or any(part.open for part in self.of))

    def __str__(self) -> str:
        if self.kind == "?":
            return self.name
        return f"{self.kind}({', '.join(map(str, self.of))})" if self.of else self.kind


DYN, ANY, BOOL, INT, UINT = Type("dyn"), Type("any"), Type("bool"), Type("int"), Type("uint")
DOUBLE, STRING, BYTES, NULL = Type("double"), Type("string"), Type("bytes"), Type("null_type")
TYPE, DEVICE = Type("type"), Type("kubernetes.DRADevice")
QUANTITY, SEMVER = Type("kubernetes.Quantity"), Type("kubernetes.Semver")
DURATION, TIMESTAMP = Type("google.protobuf.Duration"), Type("google.protobuf.Timestamp")
_NULLABLE = {"null_type", "dyn", "any", "google.protobuf.Duration", "google.protobuf.Timestamp"}
_OPAQUE = {"optional_type"}


def list_of(element: Type) -> Type:
    """``list(element)``."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """``map(key, value)``."""
    return Type("map", (key, value))


def optional(value: Type) -> Type:
    """``optional_type(value)``."""
    return Type("optional_type", (value,))


def parameter(name: str) -> Type:
    """A type parameter."""
    return Type("?", (), name)


_BARE = {"list": list_of(DYN), "map": map_of(DYN, DYN), "optional_type": optional(DYN)}


def is_dynamic(t: Type) -> bool:
    """Whether the type of a value of ``t`` is known only at run time."""
    return t.kind in ("dyn", "any")


class Bindings:
    """The types that type parameters stand for, filled while an expression is checked."""

    def __init__(self, *, compares_types: bool = False) -> None:
        self._compares_types = compares_types
        self._bound: dict[str, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """A new type parameter."""
        self._count += 1
        return parameter(f"_{self._count}")

    def resolve(self, t: Type, *, free_as_dyn: bool = False) -> Type:
        """``t`` with all bound parameters replaced. If ``free_as_dyn``, the others become dyn."""
        if t.kind == "?":
            bound = self._bound.get(t.name)
            if bound is not None:
                return self.resolve(bound, free_as_dyn=free_as_dyn)
            return DYN if free_as_dyn else t
        if not t.open:
            return t
        return Type(t.kind, tuple(self.resolve(part, free_as_dyn=free_as_dyn) for part in t.of), t.name)

    def all_fit(self, args: tuple[Type, ...], params: tuple[Type, ...]) -> bool:
        """Whether each of ``args`` is assignable to its type in ``params``; binds nothing if not."""
        if len(args) != len(params):
            return False
        before: dict[str, Type] | None = None
        for arg, param in zip(args, params, strict=True):
            if arg is param and not param.open:
                continue
            if before is None and (arg.open or param.open):
                before = dict(self._bound)
            if not self._fits(arg, param):
                self._bound = self._bound if before is None else before
                return False
        return True

    def fits(self, arg: Type, param: Type) -> bool:
        """Whether ``arg`` is assignable to ``param``."""
        return self.all_fit((arg,), (param,))

    def _fits(self, a: Type, b: Type) -> bool:
        if b.kind == "?":
            assignable, was_bound = self._substitutes(a, b)
            if assignable or was_bound:
                return assignable
        if a.kind == "?":
            return self._substitutes(b, a)[0]
        if is_dynamic(a) or is_dynamic(b):
            return True
        if a.kind == "null_type" or b.kind == "null_type":
            other = b if a.kind == "null_type" else a
            return other.kind in _NULLABLE or _is_opaque(other)
        if a.kind == "type" and b.kind == "type":
            return not self._compares_types or self._types_fit(a, b)
        return (
            a.kind == b.kind
            and len(a.of) == len(b.of)
            and all(self._fits(x, y) for x, y in zip(a.of, b.of, strict=True))
        )

    def _types_fit(self, a: Type, b: Type) -> bool:
        """Types of known values always fit, for ``type(1) == type("a")``; others only where the values may fit."""
        if not a.of or not b.of:
            return not b.of
        a, b = _with_parameters(a.of[0]), _with_parameters(b.of[0])
        return self._fits(a, b) if a.open or b.open else True

    def _substitutes(self, t: Type, param: Type) -> tuple[bool, bool]:
        """Bind ``param`` to ``t``. Returns whether that is possible, and whether ``param`` was bound before."""
        if t == param:
            return True, True
        bound = self._bound.get(param.name)
        if bound is not None:
            if t == bound:
                return True, True
            if not self._fits(t, bound):
                return False, True
            general = t if _is_general(t, bound) else bound
            if not self._mentions(param, general):
                self._bound[param.name] = general
            return True, True
        if self._mentions(param, t):
            return False, False
        self._bound[param.name] = t
        return True, False

    def _mentions(self, param: Type, t: Type) -> bool:
        """The occurs check: a parameter cannot be bound to a type that contains it."""
        if t.kind == "?":
            bound = self._bound.get(t.name)
            return t == param or (bound is not None and self._mentions(param, bound))
        return any(self._mentions(param, part) for part in t.of)

    def join(self, a: Type, b: Type) -> Type | None:
        """The more general of two types that are assignable, else None."""
        if not self.fits(a, b):
            return None
        return a if _is_general(a, b) else b


def _with_parameters(t: Type) -> Type:
    """The type that a name such as ``list`` stands for."""
    return t if t.of else _BARE.get(t.kind, t)


def _is_opaque(t: Type) -> bool:
    return t.kind in _OPAQUE or t.kind.startswith(("kubernetes.", "net."))


def _is_general(a: Type, b: Type) -> bool:
    """Whether ``a`` is equal to ``b`` or less specific."""
    if is_dynamic(a) or a.kind == "?":
        return True
    if is_dynamic(b) or b.kind == "?" or a.kind != b.kind or len(a.of) != len(b.of):
        return False
    return all(_is_general(x, y) for x, y in zip(a.of, b.of, strict=True))
