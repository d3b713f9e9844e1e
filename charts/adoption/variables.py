"""What the policies of a source know of a pod, as variables of CEL: the steps of ``driver.adoption.pods``. Pure.

`named` are the resources of the source that any container names, in the order of the table; a list of amounts has one
for each of these. The other lists have an entry for each container, first those that run and then the init containers;
"" stands for one that asks for nothing.
"""

from charts.adoption.cel import GIVEN, escaped, literal, matches, set_apart, trimmed
from charts.adoption.turns import turns
from driver.adoption import migs
from driver.adoption.naming import ADOPTED, PLAIN
from driver.adoption.sources import AdoptionSource

Variables = dict[str, str]

CLASSES = "classes"
"""The variable of the source ``plain`` with what the operator says: a list of texts `resource=class`."""


def variables(source: AdoptionSource) -> Variables:
    """The expressions by name; each uses only those before it."""
    found = _of_pod(source)
    found["given"] = f"variables.containers.map(c, variables.named.map(k, {GIVEN}))"
    number = 'g == "" ? 0 : quantity(g).isInteger() ? quantity(g).asInteger() : -1'
    found["numbers"] = f"variables.given.map(texts, texts.map(g, {number}))"
    found["words"] = _words(source)
    found["amounts"] = _amounts(source)
    found |= turns(source)
    found["templates"] = f'variables.wanted.map(W, W.all(v, v.all(a, a <= 0)) ? "" : {_template(source)})'
    return found | _claims(source)


def _of_pod(source: AdoptionSource) -> Variables:
    apps, inits = "object.spec.containers", "variables.inits"
    # The operator's patch knows the place of the first one.
    found = {CLASSES: "[]"} if source.name == PLAIN else {"tokens": literal(dict(source.resources))}
    found |= {
        "inits": "object.spec.?initContainers.orValue([])",
        "containers": f"{apps} + {inits}",
        "apps": f"{apps}.size()",
        "paths": (
            f'{apps}.transformList(i, c, "spec.containers[" + string(i) + "]") + '
            f'{inits}.transformList(i, c, "spec.initContainers[" + string(i) + "]")'
        ),
        "own": (
            f'{apps}.transformList(i, c, "lode-{source.name}-" + string(i)) + '
            f'{inits}.transformList(i, c, "lode-{source.name}-i" + string(i))'
        ),
        # Whether it ends before the others start: an init container that is no sidecar.
        "ends": f'{apps}.map(c, false) + {inits}.map(c, c.?restartPolicy.orValue("") != "Always")',
        "annotations": "object.metadata.?annotations.orValue({})",
        "labels": "object.metadata.?labels.orValue({})",
    }
    table = literal(list(source.listed))
    if source.name == PLAIN:
        table = f'variables.{CLASSES}.map(it, it.split("=")[0])'
    named = f'{table}.filter(k, variables.containers.exists(c, {GIVEN} != ""))'
    if source.pattern:
        keys = "[c.?resources.?limits.orValue({}), c.?resources.?requests.orValue({})].map(part, part.map(k, k))"
        every = f"variables.containers.map(c, {keys}.flatten()).flatten()"
        named += f" + {every}.filter(k, {matches(source.pattern)}).distinct().sort()"
    return found | {"named": named}


def _amounts(source: AdoptionSource) -> str:
    """What each container wants for itself. Whoever asks for no cards gets none, whatever else is said of them."""
    others = set_apart(source)
    want = f"{others} ? 0 : A[i]" if others else "A[i]"
    amounts = f"variables.named.transformList(i, k, {want})"
    if source.counts:
        counts = literal(sorted(source.counts))
        none = f'variables.named.exists(i, k, k in {counts} && A[i] == 0 && variables.given[j][i] != "")'
        amounts = f"{none} ? variables.named.map(k, 0) : {amounts}"
    return f"variables.numbers.transformList(j, A, {amounts})"


def _template(source: AdoptionSource) -> str:
    """The name of the template for what a claim wants, `W`."""
    resource = "variables.groups[j][x]"
    if source.name == PLAIN:
        its_class = f'variables.{CLASSES}.filter(it, it.startsWith({resource} + "="))[0].split("=")[1]'
        amount, joined = f'"n" + string(a) + "-" + {escaped(its_class)}', "."
    else:
        token = f"variables.tokens[{resource}]"
        if source.migs:
            short = f'{resource}.substring({len(migs.PREFIX)}).replace("-", {literal(migs.NONE)}).replace(".", "")'
            token = f'variables.tokens[?{resource}].orValue("g" + {short} + "x")'
        amount, joined = f"{token} + string(a)", "-"
    of_one = f'v.transformList(x, a, a > 0, {amount}).join("{joined}")'
    amounts = f'W.transformList(j, v, v.exists(a, a > 0), {of_one}).join("{joined}")'
    return f'([{literal(ADOPTED + source.name)}, {amounts}] + variables.words).join(".")'


def _words(source: AdoptionSource) -> str:
    """The annotations and labels that mean something; not those that the system itself has written."""
    parts = []
    for where, table in (("annotations", source.annotations), ("labels", source.labels)):
        if not table:
            continue
        value = plain = f"variables.{where}[p[0]]"
        if any(key in source.trimmed for key in table):
            value = f"(p[0] in {literal(sorted(source.trimmed))} ? {trimmed(plain, True)} : {plain})"
        written = "".join(
            f" && !(p[0] == {literal(output)} && {literal(mark)} in variables.annotations)"
            for mark, output in source.outputs.items()
        )
        parts.append(
            f"{literal([[key, letter] for key, letter in table.items()])}.filter(p, p[0] in variables.{where}{written})"
            f'.map(p, [{value}].map(text, text == "" ? p[1] : p[1] + "-" + {escaped("text")})[0])'
        )
    return " + ".join(parts) or "[]"


def _claims(source: AdoptionSource) -> Variables:
    """The entries of ``spec.resourceClaims``, as pairs of name and template; `uses` are those of each container."""
    claims = 'variables.templates.transformList(x, t, t != "", [variables.entries[x], t])'
    if not source.shared:
        return {"uses": "variables.claimed", "claims": claims}
    entry = literal(f"lode-{source.name}-gpu")
    token = literal(source.resources[next(iter(source.shared))])
    name = f"([{literal(ADOPTED + source.name)}, {token} + string(variables.together)] + variables.words)"
    return _shared(source) | {
        "uses": f"variables.claimed.transformList(i, names, names + (variables.shared[i] > 0 ? [{entry}] : []))",
        "claims": f'{claims} + (variables.together > 0 ? [[{entry}, {name}.join(".")]] : [])',
    }


def _shared(source: AdoptionSource) -> Variables:
    """What the containers of a pod use together: the most that is used at a time. Sidecars run from their start on."""
    its = f"variables.named.transformList(i, k, k in {literal(sorted(source.shared))}, A[i])"
    sidecars = "lists.range(i).filter(n, n >= variables.apps && !variables.ends[n]).map(n, variables.shared[n])"
    inits = f"variables.shared.transformList(i, a, variables.ends[i], a + ([0] + {sidecars}).sum())"
    running = "([0] + variables.shared.transformList(i, a, !variables.ends[i], a)).sum()"
    return {
        "shared": f"variables.numbers.map(A, ([0] + {its}).sum())",
        "together": f"({inits} + [{running}]).max()",
    }
