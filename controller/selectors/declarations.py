"""What the DRA environment of Kubernetes 1.37 declares: every function with its overloads, types and device fields.

One line is a function and its overloads; ``target.(args)->result`` is a method. Capital letters are type parameters.
The scheduler's environment knows all of it; admission's (new expressions, default gates) lacks ``includes`` and types
attributes as Any.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.selectors import types as t
from controller.selectors.types import Type

_SHORT = {
    "duration": t.DURATION, "timestamp": t.TIMESTAMP, "quantity": t.QUANTITY, "semver": t.SEMVER,
    "url": Type("kubernetes.URL"), "format": Type("kubernetes.NamedFormat"), "ip": Type("net.IP"),
    "cidr": Type("net.CIDR"),
}  # fmt: skip

_FUNCTIONS: Final = """
!_ (bool)->bool
-_ (double)->double (int)->int
@in (A,list(A))->bool (A,map(A,B))->bool
_!=_ (A,A)->bool
_%_ (int,int)->int (uint,uint)->uint
_*_ (double,double)->double (int,int)->int (uint,uint)->uint
_+_ (bytes,bytes)->bytes (double,double)->double (duration,duration)->duration (duration,timestamp)->timestamp
    (timestamp,duration)->timestamp (int,int)->int (list(A),list(A))->list(A) (string,string)->string
    (uint,uint)->uint
_-_ (double,double)->double (duration,duration)->duration (int,int)->int (timestamp,duration)->timestamp
    (timestamp,timestamp)->duration (uint,uint)->uint
_/_ (double,double)->double (int,int)->int (uint,uint)->uint
_==_ (A,A)->bool
_[?_] (list(V),int)->optional(V) (optional(list(V)),int)->optional(V) (map(K,V),K)->optional(V)
    (optional(map(K,V)),K)->optional(V)
_[_] (list(A),int)->A (map(A,B),A)->B (optional(list(V)),int)->optional(V) (optional(map(K,V)),K)->optional(V)
add quantity.(quantity)->quantity quantity.(int)->quantity
asApproximateFloat quantity.()->double
asInteger quantity.()->int
bool (bool)->bool (string)->bool
bytes (bytes)->bytes (string)->bytes
charAt string.(int)->string
cidr (string)->cidr
compareTo quantity.(quantity)->int semver.(semver)->int
contains string.(string)->bool
containsCIDR cidr.(string)->bool cidr.(cidr)->bool
containsIP cidr.(string)->bool cidr.(ip)->bool
distinct list(T).()->list(T)
double (double)->double (int)->double (string)->double (uint)->double
duration (duration)->duration (string)->duration
dyn (A)->dyn
endsWith string.(string)->bool
family ip.()->int
find string.(string)->string
findAll string.(string)->list(string) string.(string,int)->list(string)
first list(V).()->optional(V)
flatten list(list(T)).()->list(T) list(dyn).(int)->list(dyn)
format string.(list(dyn))->string
format.byte ()->format
format.date ()->format
format.datetime ()->format
format.dns1035Label ()->format
format.dns1035LabelPrefix ()->format
format.dns1123Label ()->format
format.dns1123LabelPrefix ()->format
format.dns1123Subdomain ()->format
format.dns1123SubdomainPrefix ()->format
format.labelValue ()->format
format.named (string)->optional(format)
format.qualifiedName ()->format
format.uri ()->format
format.uuid ()->format
getDate timestamp.()->int timestamp.(string)->int
getDayOfMonth timestamp.()->int timestamp.(string)->int
getDayOfWeek timestamp.()->int timestamp.(string)->int
getDayOfYear timestamp.()->int timestamp.(string)->int
getEscapedPath url.()->string
getFullYear timestamp.()->int timestamp.(string)->int
getHost url.()->string
getHostname url.()->string
getHours timestamp.()->int timestamp.(string)->int duration.()->int
getMilliseconds timestamp.()->int timestamp.(string)->int duration.()->int
getMinutes timestamp.()->int timestamp.(string)->int duration.()->int
getMonth timestamp.()->int timestamp.(string)->int
getPort url.()->string
getQuery url.()->map(string,list(string))
getScheme url.()->string
getSeconds timestamp.()->int timestamp.(string)->int duration.()->int
hasValue optional(V).()->bool
includes dyn.(dyn)->bool
indexOf string.(string)->int string.(string,int)->int list(A).(A)->int
int (int)->int (double)->int (duration)->int (string)->int (timestamp)->int (uint)->int
ip (string)->ip cidr.()->ip
ip.isCanonical (string)->bool
isCIDR (string)->bool
isGlobalUnicast ip.()->bool
isGreaterThan quantity.(quantity)->bool semver.(semver)->bool
isIP (string)->bool
isInteger quantity.()->bool
isLessThan quantity.(quantity)->bool semver.(semver)->bool
isLinkLocalMulticast ip.()->bool
isLinkLocalUnicast ip.()->bool
isLoopback ip.()->bool
isQuantity (string)->bool
isSemver (string)->bool (string,bool)->bool
isURL (string)->bool
isUnspecified ip.()->bool
join list(string).()->string list(string).(string)->string
last list(V).()->optional(V)
lastIndexOf string.(string)->int string.(string,int)->int list(A).(A)->int
lists.range (int)->list(int)
lowerAscii string.()->string
major semver.()->int
masked cidr.()->cidr
matches (string,string)->bool string.(string)->bool
minor semver.()->int
optional.none ()->optional(V)
optional.of (V)->optional(V)
optional.ofNonZeroValue (V)->optional(V)
optional.unwrap (list(optional(V)))->list(V)
or optional(V).(optional(V))->optional(V)
orValue optional(V).(V)->V
patch semver.()->int
prefixLength cidr.()->int
quantity (string)->quantity
replace string.(string,string)->string string.(string,string,int)->string
reverse list(T).()->list(T)
semver (string)->semver (string,bool)->semver
sets.contains (list(T),list(T))->bool
sets.equivalent (list(T),list(T))->bool
sets.intersects (list(T),list(T))->bool
sign (quantity)->int
size (bytes)->int bytes.()->int (list(A))->int list(A).()->int (map(A,B))->int map(A,B).()->int (string)->int
    string.()->int
slice list(T).(int,int)->list(T)
split string.(string)->list(string) string.(string,int)->list(string)
startsWith string.(string)->bool
string (string)->string (bool)->string (bytes)->string (double)->string (duration)->string (int)->string
    (timestamp)->string (uint)->string (ip)->string (cidr)->string
strings.quote (string)->string
sub quantity.(quantity)->quantity quantity.(int)->quantity
substring string.(int)->string string.(int,int)->string
sum list(int).()->int list(uint).()->uint list(double).()->double list(duration).()->duration
timestamp (timestamp)->timestamp (int)->timestamp (string)->timestamp
trim string.()->string
type (A)->type(A)
uint (uint)->uint (double)->uint (int)->uint (string)->uint
unwrapOpt list(optional(V)).()->list(V)
upperAscii string.()->string
url (string)->url
validate format.(string)->optional(list(string))
value optional(V).()->V
"""

_COMPARED = (
    "bool bool", "int int", "int double", "int uint", "uint uint", "uint double", "uint int", "double double",
    "double int", "double uint", "string string", "bytes bytes", "timestamp timestamp", "duration duration",
)  # fmt: skip
_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
"""In the order upstream declares them: it decides what a list of unknown element type becomes."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; of a method the target is the first of ``args``."""

    member: bool
    args: tuple[Type, ...]
    result: Type


def _parse_type(text: str) -> Type:
    name, _, inner = text.partition("(")
    if inner:
        return Type("optional_type" if name == "optional" else name, tuple(map(_parse_type, _split(inner[:-1]))))
    if len(name) == 1 and name.isupper():
        return t.parameter(name)
    return _SHORT.get(name, Type(name))


def _split(text: str) -> list[str]:
    """``text`` at the commas outside parentheses."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part]


_OVERLOAD = re.compile(r"(?:([^\s.]+)\.)?\((.*)\)->(\S+)")


def _parse_overload(text: str) -> Overload:
    found = _OVERLOAD.fullmatch(text)
    assert found, text
    args = tuple(map(_parse_type, _split(found[2])))
    target = (_parse_type(found[1]),) if found[1] else ()
    return Overload(bool(target), target + args, _parse_type(found[3]))


def _generated() -> dict[str, tuple[Overload, ...]]:
    """Comparisons (numbers of different types may be compared) and functions on lists of ordered values."""
    compare = tuple(Overload(False, tuple(map(_parse_type, pair.split())), t.BOOL) for pair in _COMPARED)
    lists = tuple((t.list_of(kind), kind) for kind in map(_parse_type, _ORDERED))
    return {
        **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), compare),
        "isSorted": tuple(Overload(True, (many,), t.BOOL) for many, _ in lists),
        "min": tuple(Overload(True, (many,), one) for many, one in lists),
        "max": tuple(Overload(True, (many,), one) for many, one in lists),
        "sort": tuple(Overload(True, (many,), many) for many, _ in lists),
    }


def _parse_functions(text: str) -> dict[str, tuple[Overload, ...]]:
    entries = re.sub(r"\n +", " ", text.strip()).split("\n")
    return {
        name: tuple(map(_parse_overload, overloads.split()))
        for name, _, overloads in (entry.partition(" ") for entry in entries)
    }


FUNCTIONS: Final[Mapping[str, tuple[Overload, ...]]] = {**_parse_functions(_FUNCTIONS), **_generated()}
NAMESPACED_FUNCTIONS: Final = frozenset(name for name in FUNCTIONS if "." in name and not name.startswith("_"))
SORT_KEYS: Final = frozenset(_parse_type(name).kind for name in _ORDERED)

TYPE_NAMES: Final = frozenset(
    {
        "bool", "bytes", "double", "int", "uint", "string", "list", "map", "null_type", "optional_type", "type",
        "google.protobuf.Any", "google.protobuf.Duration", "google.protobuf.Timestamp", "kubernetes.DRADevice",
        "net.IP", "net.CIDR",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may use: the scheduler's language, or that of admission for new expressions."""

    attribute: Type = t.DYN
    result: Type = t.DYN
    """The type besides bool that an expression may have."""
    includes: bool = True
    allow_multiple: bool = True

    def field(self, name: str) -> Type | None:
        """The type of ``device.<name>``, or None."""
        match name:
            case "driver":
                return t.STRING
            case "attributes":
                return t.map_of(t.STRING, t.map_of(t.STRING, self.attribute))
            case "capacity":
                return t.map_of(t.STRING, t.map_of(t.STRING, t.QUANTITY))
            case "allowMultipleAllocations" if self.allow_multiple:
                return t.BOOL
        return None

    def overloads(self, function: str) -> tuple[Overload, ...]:
        """The signatures of ``function``; empty if it is not declared."""
        return () if function == "includes" and not self.includes else FUNCTIONS.get(function, ())


SCHEDULER: Final = Environment()
"""How kube-scheduler 1.37 reads stored expressions, whatever its feature gates; what allocation uses."""

ADMISSION: Final = Environment(attribute=t.ANY, result=t.ANY, includes=False)
"""How the API server 1.37 with default gates checks a new expression."""
