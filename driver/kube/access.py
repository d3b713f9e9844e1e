"""The API server's address and the credentials for it: a pod's service account, or a kubeconfig file.

Only home of ``kubernetes``.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.errors import OperatorFault

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The kubelet mounts a pod's token and the cluster's CA here, and renews the token before it expires."""

TOKEN_SECONDS = 60.0
"""Seconds that a token from a file is used before the file is read again."""


def _no_token() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Access:
    """An API server and the credentials for it. Files are PEM; "" means not used."""

    server: str
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify: bool = True
    server_name: str = ""
    proxy: str = ""
    token: Callable[[], str] = _no_token
    """Returns the bearer token to send; called before every request."""
    namespace: str = "default"
    """The namespace for requests that name none."""


class TokenFile:
    """A bearer token in a file that is replaced regularly. Thread-safe."""

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic):
        self._path = path
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._token = ""

    def __call__(self) -> str:
        """The token, at most ``TOKEN_SECONDS`` old; the last one while the file cannot be read."""
        with self._lock:
            now = self._monotonic()
            if now - self._read_at >= TOKEN_SECONDS:
                try:
                    self._token, self._read_at = self._path.read_text().strip(), now
                except OSError:
                    if not self._token:
                        raise
            return self._token


def in_cluster(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Access:
    """The access a pod has through its service account.

    Raises:
        OperatorFault: the service account's files do not exist (``automountServiceAccountToken: false``?).
    """
    token, ca = folder / "token", folder / "ca.crt"
    missing = [str(path) for path in (token, ca) if not path.is_file()]
    if missing:
        raise OperatorFault(f"{', '.join(missing)}: not found; mount the pod's service account token")
    host = environment["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    return Access(f"https://{host}:{port}", ca_file=str(ca), token=TokenFile(token))


def from_kubeconfig(path: str, context: str = "") -> Access:
    """The access of a context of a kubeconfig, by default the current one; "" is the user's own file.

    Raises:
        OperatorFault: the file cannot be read or lacks what is needed, or the package that reads it is not installed:
            the image of the programs has none.
    """
    # The package takes 0.7 s and 40 MB to import. Only the command line needs it; pods use the service account.
    import yaml

    try:
        from kubernetes import client, config
    except ModuleNotFoundError as error:
        raise OperatorFault(
            "the Python package kubernetes is not installed, which reads kubeconfigs; "
            "install Lode's command as README says, or run this in a pod with a service account"
        ) from error

    files = [Path(part).expanduser() for part in (path or config.KUBE_CONFIG_DEFAULT_LOCATION).split(os.pathsep)]
    if not any(file.exists() for file in files):
        missing = ", ".join(map(str, files))
        raise OperatorFault(
            f"no kubeconfig: {missing} does not exist; set $KUBECONFIG or --kubeconfig to the file of your cluster"
        )
    settings: Any = client.Configuration()
    load: Any = config.load_kube_config
    contexts: Any = config.list_kube_config_contexts
    try:
        load(path or None, context=context or None, client_configuration=settings, persist_config=False)
        known, current = contexts(path or None)
        chosen = next((it for it in known if it["name"] == context), current)
    except (config.ConfigException, yaml.YAMLError, OSError, TypeError, ValueError) as error:
        file, problem = path or config.KUBE_CONFIG_DEFAULT_LOCATION, " ".join(str(error).split())
        raise OperatorFault(f"kubeconfig {file}: {problem}; correct it, or set $KUBECONFIG to another file") from error

    def token() -> str:
        if settings.refresh_api_key_hook:
            settings.refresh_api_key_hook(settings)
        # The package has had two names for it.
        keys = settings.api_key
        return str(keys.get("BearerToken") or keys.get("authorization") or "").removeprefix("Bearer ")

    return Access(
        settings.host.rstrip("/"),
        ca_file=settings.ssl_ca_cert or "",
        cert_file=settings.cert_file or "",
        key_file=settings.key_file or "",
        verify=bool(settings.verify_ssl),
        server_name=settings.tls_server_name or "",
        proxy=settings.proxy or "",
        token=token,
        namespace=chosen["context"].get("namespace") or "default",
    )


def from_environment(kubeconfig: str = "", environment: Mapping[str, str] = os.environ, *, context: str = "") -> Access:
    """``kubeconfig`` if given, else ``$KUBECONFIG``, else the pod's service account, else ``~/.kube/config``.

    ``context`` names a context of the kubeconfig; with one, the service account is not used.

    Raises:
        OperatorFault: the first of these that is present is not valid.
    """
    chosen = kubeconfig or environment.get("KUBECONFIG", "")
    if not chosen and not context and environment.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environment)
    return from_kubeconfig(chosen, context)
