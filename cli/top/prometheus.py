"""The port to a Prometheus server, over HTTP. Only GET and POST of ``/api/v1/query`` are used."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from cli.top.measured import Sample
from driver.errors import SENSELESS, OperatorFault

_SECONDS: Final = 30.0
_MOST_BYTES: Final = 64 * 1024**2
"""Of an answer: 40,000 cards take some 8 MiB."""


class PrometheusServer:
    """A server with Prometheus' HTTP API, such as Prometheus, Thanos or VictoriaMetrics.

    Args:
        url: what stands before ``/api/v1``; it may have a user and a password.

    Raises:
        OperatorFault: it is no URL of HTTP.
    """

    def __init__(self, url: str, token: str = ""):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OperatorFault(f"--prometheus {url!r}: write a URL such as http://localhost:9090")
        self._url = url.rstrip("/")
        self._token = token

    def query(self, expression: str) -> Sequence[Sample]:
        """See ``MetricsDatabase``. The answer is read up to a bound."""
        headers = {"Accept": "application/json", "User-Agent": "lode"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = Request(f"{self._url}/api/v1/query", urlencode({"query": expression}).encode(), headers)
        try:
            with urlopen(request, timeout=_SECONDS) as answer:
                data = answer.read(_MOST_BYTES + 1)
        except HTTPError as error:
            raise OperatorFault(f"{self._url} answered {error.code}: {_told(error)}") from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise OperatorFault(f"{self._url} does not answer: {reason}; see that --prometheus is right") from error
        if len(data) > _MOST_BYTES:
            raise OperatorFault(f"{self._url} answered with more than {_MOST_BYTES} bytes")
        try:
            return _samples(json.loads(data))
        except SENSELESS as error:
            raise OperatorFault(f"{self._url} is no Prometheus, its answer cannot be read: {error!r}") from error


def _samples(answer: Mapping[str, Any]) -> list[Sample]:
    if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
        raise ValueError(str(answer.get("error") or answer)[:256])
    return [Sample(dict(one["metric"]), float(one["value"][1])) for one in answer["data"]["result"]]


def _told(error: HTTPError) -> str:
    """Return what the server says about a failed query."""
    try:
        return str(json.loads(error.read(4096))["error"])[:256]
    except SENSELESS:
        return error.reason
