"""Which claims the containers of a pod use, as variables of CEL: the steps of ``driver.adoption.turns``. Pure.

A container is its place in the lists of `charts.adoption.variables`. What it asks for of one kind of card is a list of
numbers: of cards, MiB, percent and cores, and then the kind. An index is always called so: `i` is of a container, `j`
of a kind of card, `p` of a claim, which is that of a container or, below 0, an extra one for init containers.
"""

from charts.adoption.cel import literal, set_apart
from driver.adoption.sources import AdoptionSource, CardAmounts
from driver.adoption.turns import CORES, EXTRAS, MEMORY, PERCENT, UNLIKE, WHOLE, extra_entry

_NOT_STARTED = "u[0] < variables.apps || u[0] > i"
"""Whether the claim `u` is of a container that has not started while the init container `i` runs."""
_SIZE = "variables.sizes[{}][j]"


def turns(source: AdoptionSource) -> dict[str, str]:
    """The expressions by name, from `groups` to `raised`; they need `named`, `amounts`, `own`, `ends` and `apps`."""
    places = "lists.range(variables.ends.size())"
    running = f"{places}.filter(i, i < variables.apps) + "
    running += f"{places}.map(x, variables.ends.size() - 1 - x).filter(i, i >= variables.apps && !variables.ends[i])"
    kinds = EXTRAS if source.cards else [WHOLE]
    return {
        "groups": _groups(source),
        "raw": (
            "variables.amounts.map(A, variables.groups.map(g, g.map(k, "
            "k in variables.named ? A[variables.named.indexOf(k)] : 0)))"
        ),
        "sizes": _sizes(source),
        "running": running,
        # By kind of card, first whole ones and then parts: the claim, and how many cards are before and up to it.
        "lines": f"variables.groups.transformList(j, g, [true, false].map(whole, {_line()}))",
        # Those that an init container may use: the first ones of each line.
        "free": _per_size(
            f"variables.ends[i] ? variables.lines[j].map(L, L.filter(u, {_NOT_STARTED})) : [[], []]", "L"
        ),
        "left": _per_size(
            f"variables.ends[i] && {_SIZE.format('i')}[4] == {WHOLE} ? "
            f"[0, {_SIZE.format('i')}[0] - {_reach('f[0]')} - {_reach('f[1]')}].max() : 0"
        ),
        "extra": "variables.groups.transformList(j, g, variables.left.map(n, n[j]).max())",
        "picks": _per_size(_picks()),
        "places": f"{places}.filter(i, !variables.ends[i]) + {literal([-kind for kind in kinds])}",
        "wanted": (
            f"variables.places.map(p, variables.groups.transformList(j, g, [{_users()}].map(V, {_wanted(source)})[0]))"
        ),
        "entries": (
            f"variables.places.map(p, p >= 0 ? variables.own[p] : "
            f"{literal(['', *(extra_entry(source.name, kind) for kind in kinds)])}[-p])"
        ),
        "claimed": (
            "variables.raw.transformList(i, G, variables.ends[i] ? "
            "variables.places.transformList(x, p, variables.picks[i].exists(P, p in P), variables.entries[x]) : "
            "G.exists(v, v.exists(a, a > 0)) ? [variables.own[i]] : [])"
        ),
        # Containers that have more of a card than they asked for.
        "raised": (
            "variables.places.transformList(x, p, p >= 0 && lists.range(variables.groups.size()).exists(j, "
            f"{_SIZE.format('p')}[4] > {WHOLE} && variables.wanted[x][j] != variables.raw[p][j]), p)"
        ),
    }


def _groups(source: AdoptionSource) -> str:
    """The kinds of card that are asked for, each as the names of its resources."""
    others = set_apart(source)
    named = f"variables.named.filter(k, !({others}))" if others else "variables.named"
    if not source.cards:
        return f'{named}.map(k, [k, "", "", ""])'
    cards = {resource: list(it.names) for it in source.cards for resource in it.resources}
    return f'{named}.map(k, {literal(cards)}[?k].orValue([k, "", "", ""])).distinct()'


def _per_size(value: str, of: str = "") -> str:
    """A list for each container with a value for each kind of card; `f` are the claims that it may use."""
    if of:
        return f"variables.sizes.transformList(i, G, G.transformList(j, s, {value}))"
    return f"variables.free.transformList(i, F, F.transformList(j, f, {value}))"


def _sizes(source: AdoptionSource) -> str:
    sizes = "[v[0], 0, 0, 0, 1]"
    cards = next((it for it in source.cards if not it.unit), None)
    if cards:
        sizes = _size(cards)
    for it in source.cards:
        if it.unit:
            part = f"v[0] % {it.unit}"
            size = f"{part} == 0 ? [v[0], 0, 0, 0, {WHOLE}] : [{it.unit}, {part}, 0, 0, {MEMORY}]"
            sizes = f"variables.groups[j][0] == {literal(it.count)} ? ({size}) : {sizes}"
    return "variables.raw.map(G, G.transformList(j, v, !v.exists(a, a > 0) ? [0, 0, 0, 0, 0] : " + sizes + "))"


def _size(cards: CardAmounts) -> str:
    memory = "(v[2] > 0 ? 0 : v[1])" if cards.percent_first else "v[1]"
    exclusive = f"v[3] >= 100 ? {WHOLE} : " if cards.exclusive else ""
    kind = f"{exclusive}{memory} > 0 ? {MEMORY} : v[2] > 0 && v[2] < 100 ? {PERCENT} : v[3] > 0 ? {CORES} : {WHOLE}"
    size = f"[v[0] > 0 ? v[0] : 1, {memory}, q == {PERCENT} ? v[2] : 0, q == {WHOLE} ? 0 : v[3], q]"
    return f"[{kind}].map(q, {size})[0]"


def _line() -> str:
    its = f"variables.running.filter(i, {_SIZE.format('i')}[4] > 0 && ({_SIZE.format('i')}[4] == {WHOLE}) == whole)"
    until = f"([0] + R.slice(0, {{}}).map(q, {_SIZE.format('q')}[0])).sum()"
    return f"[{its}].map(R, R.transformList(x, r, [r, {until.format('x')}, {until.format('x + 1')}]))[0]"


def _reach(line: str) -> str:
    """How many cards the claims of a line have."""
    return f"([0] + {line}.map(u, u[2])).max()"


def _picks() -> str:
    """The claims that the init container `i` uses of those in `f`; an extra one is minus its kind."""
    size = _SIZE.format("i")
    whole = f"f[0].filter(u, u[1] < {size}[0]).map(u, u[0]) + "
    whole += f"f[1].filter(u, u[1] + {_reach('f[0]')} < {size}[0]).map(u, u[0]) + "
    whole += f"(variables.left[i][j] > 0 ? [-{WHOLE}] : [])"
    suitable = f"[{_SIZE.format('u[0]')}].exists(o, o[0] >= {size}[0] && o[4] + {size}[4] != {UNLIKE})"
    suitable = f"(f[1] + f[0]).filter(u, {suitable}).map(u, u[0])"
    enough = f"C.filter(r, {_SIZE.format('r')}[4] == {WHOLE} || {_has(_SIZE.format('r'), size)})"
    extra = f"(variables.extra[j] >= {size}[0] ? [-{WHOLE}] : [])"
    part = f"[{suitable}].map(C, ({enough} + {extra} + C + [-{size}[4]]).slice(0, 1))[0]"
    return f"!variables.ends[i] || {size}[4] == 0 ? [] : {size}[4] == {WHOLE} ? {whole} : {part}"


def _has(one: str, other: str) -> str:
    """Whether each card of the one has as much as each of the other; neither is of whole cards."""
    return f"{one}[4] == {other}[4] && " + " && ".join(f"{other}[{at}] <= {one}[{at}]" for at in (1, 2, 3))


def _users() -> str:
    """What the claim `p` is for: what its container asks for, and the init containers that use it."""
    inits = f"lists.range(variables.ends.size()).filter(i, p in variables.picks[i][j]).map(i, {_SIZE.format('i')})"
    return f"(p >= 0 ? [{_SIZE.format('p')}] : []) + {inits}"


def _wanted(source: AdoptionSource) -> str:
    """What the claim `p` asks for, for the sizes `V`: the amounts of the resources."""
    has = f"(V[0][4] == {WHOLE} ? s[1] <= V[0][1] : {_has('V[0]', 's')})"
    most = "V.map(s, s[{}]).max()"
    count = f"(p >= 0 ? V[0][0] : p == -{WHOLE} ? variables.extra[j] : {most.format(0)})"
    whole = f"[{count}, 0, 0, 0]"
    if any(it.exclusive for it in source.cards):
        whole = f"{most.format(1)} > 0 ? [{count}, {most.format(1)}, 0, 100] : {whole}"
    parts = f"[{count}, {', '.join(most.format(at) for at in (1, 2, 3))}]"
    for it in source.cards:
        if it.unit:
            parts = f"g[0] == {literal(it.count)} ? [{most.format(1)}, 0, 0, 0] : {parts}"
    return (
        "V.size() == 0 ? [0, 0, 0, 0] : "
        f"p >= 0 && V.all(s, {has}) ? variables.raw[p][j] : "
        f"V.exists(s, s[4] == {WHOLE} || s[4] != V[0][4]) ? ({whole}) : ({parts})"
    )
