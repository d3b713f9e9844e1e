"""The macros that walk a list or map, with upstream's treatment of failures inside them."""

from collections.abc import Callable, Iterator
from typing import Any

from controller.selectors.errors import BudgetSpent, SelectorFault, no_overload
from controller.selectors.values import Device, key_of, keys, kind

Frame = list[Any]
Code = Callable[[Frame], Any]
BUDGET = 1


def build(fold: str, over: Code, variables: tuple[int, ...], where: Code | None, body: Code) -> Code:
    """The code of one fold; ``variables`` are its slots in the frame."""

    def steps(frame: Frame) -> Iterator[None]:
        for _ in _walk(frame, over(frame), variables):
            if where is None or _truth(where(frame)):
                yield

    first = variables[0]
    match fold:
        case "all":
            return lambda frame: _decide(frame, steps, body, deciding=False)
        case "exists":
            return lambda frame: _decide(frame, steps, body, deciding=True)
        case "exists_one":
            return lambda frame: _exactly_one(frame, steps, body)
        case "map" | "transformList":
            return lambda frame: [body(frame) for _ in steps(frame)]
        case "filter":
            return lambda frame: [frame[first] for _ in steps(frame) if _truth(body(frame))]
        case "transformMap":
            return lambda frame: {key_of(frame[first]): body(frame) for _ in steps(frame)}
        case "transformMapEntry":
            return lambda frame: _entries(frame, steps, body)
        case _:
            return lambda frame: _sorted(frame, steps, first, body)


Steps = Callable[[Frame], Iterator[None]]


def _walk(frame: Frame, value: Any, variables: tuple[int, ...]) -> Iterator[None]:
    budget = frame[BUDGET]
    pairs: Any
    if isinstance(value, list):
        pairs = enumerate(value)
    elif isinstance(value, dict) and not isinstance(value, Device):
        pairs = zip(keys(value), value.values(), strict=True)
    else:
        raise SelectorFault(f"got '{kind(value)}', expected a list or map to walk")
    one = len(variables) == 1
    use_key = isinstance(value, dict)
    for key, element in pairs:
        budget.turn()
        if one:
            frame[variables[0]] = key if use_key else element
        else:
            frame[variables[0]], frame[variables[1]] = key, element
        yield


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_overload("_?_:_")


def _decide(frame: Frame, steps: Steps, predicate: Code, *, deciding: bool) -> bool:
    fault: SelectorFault | None = None
    for _ in steps(frame):
        try:
            value = predicate(frame)
        except BudgetSpent:
            raise
        except SelectorFault as error:
            fault = fault or error
            continue
        if value is deciding:
            return bool(value)
        if value is not (not deciding):
            fault = fault or no_overload("_||_" if deciding else "_&&_")
    if fault is not None:
        raise fault
    return not deciding


def _exactly_one(frame: Frame, steps: Steps, predicate: Code) -> bool:
    return sum(_truth(predicate(frame)) for _ in steps(frame)) == 1


def _entries(frame: Frame, steps: Steps, body: Code) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for _ in steps(frame):
        entry = body(frame)
        if not isinstance(entry, dict):
            raise no_overload("transformMapEntry")
        for key, value in entry.items():
            if key in result:
                raise SelectorFault(f"insert failed: key {key} already exists")
            result[key] = value
    return result


def _sorted(frame: Frame, steps: Steps, variable: int, body: Code) -> list[Any]:
    keyed = [(body(frame), frame[variable]) for _ in steps(frame)]
    kinds = {kind(key) for key, _ in keyed}
    if len(kinds) > 1:
        raise SelectorFault("list elements must have the same type")
    if not kinds <= {"int", "uint", "double", "bool", "string", "bytes"}:
        raise no_overload("sortBy")
    return [value for _, value in sorted(keyed, key=lambda pair: pair[0])]
