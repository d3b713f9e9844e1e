"""Cache keys derived from whole values, so that a field cannot be forgotten in one. Pure."""

from collections.abc import Hashable, Mapping

_AS_THEY_ARE = (str, type(None))


def frozen(value: object) -> Hashable:
    """A hashable value that is equal for two values exactly if all their parts are, with their types.

    Dataclasses are taken apart field by field, also fields and types whose own ``==`` is more lenient: a ``Quantity``
    equals another one of the same amount, but allocations are written in the format of the request. Mappings and
    sequences keep their order.

    Raises:
        TypeError: a part is neither hashable nor a dataclass, mapping, list or tuple.

    >>> frozen({"memory": [1, True]}) == frozen({"memory": [1, 1]})
    False
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is tuple:
        return tuple([frozen(part) for part in value])  # type: ignore[attr-defined]
    names = getattr(kind, "__dataclass_fields__", None)
    if names is not None:
        return (kind, *[frozen(getattr(value, name)) for name in names])
    if isinstance(value, Mapping):
        return (dict, *[(frozen(key), frozen(part)) for key, part in value.items()])
    if isinstance(value, list | tuple):
        return (kind, *[frozen(part) for part in value])
    hash(value)
    return kind, value
