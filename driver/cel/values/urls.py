"""URLs as Go's net/url parses and writes them, because Kubernetes' CEL functions on URLs return its results.

The fields hold one character for each byte (latin-1): percent signs encode bytes, which need not be UTF-8.
"""

import ipaddress
import re
import string
from dataclasses import dataclass

_PLAIN = frozenset(string.ascii_letters + string.digits + "-_.~")
_PATH = _PLAIN | set("$&+,/:;=@")
_USER = _PLAIN | set("$&+,;=")
_HOST = _PLAIN | set("!$&'()*+,;=:[]<>\"")
_FRAGMENT = _PLAIN | set("$&+,/:;=?@!()*")
_VALID_PATH = _PATH | set("!'()*[]%")
_VALID_FRAGMENT = _FRAGMENT | set("'[]%")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PORT = re.compile(r"(?::[0-9]*)?")
_CODE = re.compile(r"%([0-9a-fA-F]{2})?")
_MOST_PARAMETERS = 10_000


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL. ``path`` and ``fragment`` are decoded; ``raw_path`` and ``raw_fragment`` are as written."""

    scheme: str = ""
    opaque: str = ""
    user: tuple[str, ...] | None = None
    """The user name, or the user name and the password."""
    host: str = ""
    path: str = ""
    raw_path: str = ""
    query: str = ""
    force_query: bool = False
    omit_host: bool = False
    fragment: str = ""
    raw_fragment: str = ""

    @classmethod
    def parse(cls, text: str) -> "Url":
        """The absolute URL, or absolute path, written in ``text``; a fragment is allowed.

        Raises:
            ValueError: it is neither.
        """
        raw = _bytes(text)
        _parse(raw, request=True)
        before, _, fragment = raw.partition("#")
        return _parse(before, request=False, fragment=fragment)

    @property
    def hostname(self) -> str:
        """The host without the port and without brackets."""
        return self._host_and_port()[0]

    @property
    def port(self) -> str:
        """The port, or "" if there is none."""
        return self._host_and_port()[1]

    def _host_and_port(self) -> tuple[str, str]:
        host, port = self.host, ""
        head, colon, tail = host.rpartition(":")
        if colon and _PORT.fullmatch(colon + tail):
            host, port = head, tail
        bracketed = host.startswith("[") and host.endswith("]")
        return host[1:-1] if bracketed else host, port

    @property
    def escaped_path(self) -> str:
        """The path as it was written if that is a valid encoding, else in the default encoding."""
        if self.path == "*":
            return "*"
        return _written(self.raw_path, self.path, _VALID_PATH, _PATH)

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The parameters of the query, without malformed ones."""
        values: dict[str, list[str]] = {}
        if self.query.count("&") >= _MOST_PARAMETERS:
            return values
        for part in self.query.split("&"):
            if not part or ";" in part:
                continue
            name, _, value = part.partition("=")
            try:
                pair = _unescape(name.replace("+", " ")), _unescape(value.replace("+", " "))
            except ValueError:
                continue
            values.setdefault(text(pair[0]), []).append(text(pair[1]))
        return values

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            text += self.opaque
        else:
            text += self._authority()
            path = self.escaped_path
            if path and path[0] != "/" and self.host:
                text += "/"
            text += path
        if self.force_query or self.query:
            text += f"?{self.query}"
        if self.fragment:
            text += f"#{_written(self.raw_fragment, self.fragment, _VALID_FRAGMENT, _FRAGMENT)}"
        return text

    def _authority(self) -> str:
        named = bool(self.host) or self.user is not None
        if not (self.scheme or named) or (self.omit_host and not named):
            return ""
        slashes = "//" if named or self.path else ""
        user = "" if self.user is None else ":".join(_escape(part, _USER) for part in self.user) + "@"
        return f"{slashes}{user}{_escape(self.host, _HOST)}"


def _bytes(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def text(raw: str) -> str:
    """The text of the bytes in ``raw``. Bytes that are not UTF-8 become surrogates, so that they remain distinct."""
    return raw.encode("latin-1").decode("utf-8", "surrogateescape")


def _escape(raw: str, plain: frozenset[str]) -> str:
    return "".join([char if char in plain else f"%{ord(char):02X}" for char in raw])


def _unescape(raw: str) -> str:
    def decode(code: re.Match[str]) -> str:
        if not code[1]:
            raise ValueError(f"invalid URL escape {raw[code.start() : code.start() + 3]!r}")
        return chr(int(code[1], 16))

    return _CODE.sub(decode, raw)


def _written(raw: str, decoded: str, valid: frozenset[str], plain: frozenset[str]) -> str:
    return raw if raw and valid.issuperset(raw) else _escape(decoded, plain)


def _parse(raw: str, *, request: bool, fragment: str = "") -> Url:
    if any(char < " " or char == "\x7f" for char in raw):
        raise ValueError("control characters in a URL")
    if raw == "" and request:
        raise ValueError("not a URL: the text is empty")
    decoded = _unescape(fragment)
    if raw == "*":
        return Url(path="*", fragment=decoded, raw_fragment=fragment)
    match = _SCHEME.match(raw)
    if raw.startswith(":"):
        raise ValueError(f"no scheme before ':' in URL {raw!r}")
    scheme, rest = (match[1].lower(), raw[match.end() :]) if match else ("", raw)
    force_query = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, rest, query=query, force_query=force_query, fragment=decoded, raw_fragment=fragment)
        raise ValueError(f"neither an absolute URL nor an absolute path: {raw!r}")
    user, host, omit_host = None, "", bool(scheme)
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, after = rest[2:].partition("/")
        user, host = _authority(scheme, authority)
        rest, omit_host = slash + after, False
    path = _unescape(rest)
    return Url(
        scheme,
        "",
        user=user,
        host=host,
        path=path,
        raw_path=rest,
        query=query,
        force_query=force_query,
        omit_host=omit_host,
        fragment=decoded,
        raw_fragment=fragment,
    )


def _authority(scheme: str, raw: str) -> tuple[tuple[str, ...] | None, str]:
    userinfo, at, host = raw.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, host
    if not _USERINFO.fullmatch(userinfo):
        raise ValueError("invalid user name or password in the URL")
    name, colon, password = userinfo.partition(":")
    return (_unescape(name), _unescape(password)) if colon else (_unescape(name),), host


def _host(scheme: str, raw: str) -> str:
    if raw.rfind("[") > 0:
        raise ValueError(f"invalid host {raw!r}: a bracket inside")
    if raw.startswith("["):
        inside, bracket, port = raw[1:].rpartition("]")
        if not bracket:
            raise ValueError(f"invalid host {raw!r}: no ']'")
        _check_port(port)
        return f"[{_bracketed(inside)}]{port}"
    if ":" in raw:
        strict = scheme in ("http", "https")
        _check_port(raw[raw.find(":") if strict else raw.rfind(":") :])
    return _unescape_host(raw)


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {port!r} after the host")


def _bracketed(raw: str) -> str:
    """An IPv6 address, with an optional zone after an encoded percent sign."""
    host, percent, zone = raw.partition("%25")
    name = _unescape_host(host)
    if percent:
        _check_zone(percent + zone)
        name += _unescape(percent + zone)
    try:
        ipaddress.IPv6Address(text(name).partition("%")[0])
    except ValueError as error:
        raise ValueError(f"invalid host: {error}") from None
    if name.endswith("%"):
        raise ValueError(f"invalid host {raw!r}: the zone is empty")
    return name


def _unescape_host(raw: str) -> str:
    """The decoded host. Only bytes outside ASCII and the percent sign may be encoded."""
    for code in _CODE.finditer(raw):
        if code[1] and int(code[1], 16) < 0x80 and code[1] != "25":
            raise ValueError(f"invalid URL escape {code[0]!r}")
    _check_characters(raw)
    return _unescape(raw)


def _check_zone(raw: str) -> None:
    for match in _CODE.finditer(raw):
        code = chr(int(match[1], 16)) if match[1] else ""
        if code and code not in " %" and code not in _HOST:
            raise ValueError(f"invalid URL escape {match[0]!r}")
    _check_characters(raw)


def _check_characters(raw: str) -> None:
    wrong = next((char for char in raw if char < "\x80" and char != "%" and char not in _HOST), "")
    if wrong:
        raise ValueError(f"invalid character {wrong!r} in a host name")


def invalid(text: str) -> str:
    """Why ``text`` is neither an absolute URL nor an absolute path; "" if it is."""
    try:
        _parse(_bytes(text), request=True)
    except ValueError as error:
        return str(error)
    return ""
