"""The ``spec`` of a template on demand, from its name. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from driver.adoption.gpus import gpus
from driver.adoption.naming import ADOPTED, PLAIN, AdoptedName, is_on_demand, read_name
from driver.adoption.npus import npus
from driver.adoption.rules import MOST_DEVICES
from driver.adoption.sources import ASCEND, HAMI, NVIDIA, SOURCES, VOLCANO
from driver.adoption.wanted import Json
from driver.adoption.words import worded
from driver.errors import Fault, InvalidInput
from driver.names import Names


def _plain(request: AdoptedName, _names: Names, _faults: list[Fault]) -> Json:
    requests = [
        {"name": f"devices-{index}", "exactly": {"deviceClassName": name, "count": count}}
        for index, (name, count) in enumerate(request.amounts.items())
    ]
    return {"spec": {"devices": {"requests": requests}}}


_MEANINGS: Final[Mapping[str, Callable[[AdoptedName, Names, list[Fault]], Json]]] = {
    NVIDIA.name: gpus,
    HAMI.name: gpus,
    VOLCANO.name: gpus,
    ASCEND.name: npus,
    PLAIN: _plain,
}


def template_spec(name: str, names: Names) -> Json:
    """Return the ``spec`` of the ResourceClaimTemplate that a name on demand stands for.

    Raises:
        InvalidInput: the name stands for nothing; with all faults. Who wrote the pod must change it.
    """
    faults: list[Fault] = []
    if not is_on_demand(name):
        faults.append(Fault("metadata.name", "it does not begin with lode. or lode-adopt."))
        spec: Json = {}
    elif not name.startswith(ADOPTED):
        spec = worded(name, names, faults)
    else:
        request = read_name(name)
        spec = _MEANINGS[request.source](request, names, faults) if _is_known(request, faults) else {}
    if faults:
        raise InvalidInput(f"ResourceClaimTemplate {name[:253]}", faults)
    return spec


def _is_known(request: AdoptedName, faults: list[Fault]) -> bool:
    """Whether the source has all tokens and keys of the name."""
    source = SOURCES.get(request.source)
    if source is None:
        faults.append(Fault("metadata.name", f"source {request.source!r} must be one of {', '.join(SOURCES)}"))
        return False
    if source.name != PLAIN:
        unknown = [it for it in request.amounts if not source.has_token(it)]
        unknown += set(request.words) - set(source.words.values())
        faults.extend(Fault("metadata.name", f"{it!r} means nothing for {source.name}") for it in sorted(unknown))
    counts = [amount for token, amount in request.amounts.items() if source.name == PLAIN or _counts(token)]
    if any(amount > MOST_DEVICES for amount in counts):
        faults.append(Fault("metadata.name", f"a claim has at most {MOST_DEVICES} devices"))
    return not faults


def _counts(token: str) -> bool:
    """Whether a token counts devices, and no memory, cores or percentage."""
    return token in ("n", "w") or token.endswith(("n", "x"))
