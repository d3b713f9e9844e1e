"""An API that fails for a while, and a plugin that is killed before its n-th call."""

from typing import Any

from driver.kube.api import Api, Object, Resource, Unavailable


class Unsteady:
    """Answers ``get`` only after it failed ``failures`` times; the plugin's preparing half uses no other call."""

    def __init__(self, api: Api, failures: int):
        self._api = api
        self._left = failures

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        if self._left > 0:
            self._left -= 1
            raise Unavailable("connection refused")
        return self._api.get(resource, name, namespace)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"preparing must not call {name}")


class Killed(BaseException):
    """SIGKILL: nothing may catch it."""


class Counted:
    """Counts calls to files and API together, and kills the program before call number ``kill_before``."""

    def __init__(self, kill_before: int):
        self._left = kill_before

    def before(self, operation: str, path: str) -> None:
        if self._left == 0:
            raise Killed(f"{operation} {path}")
        self._left -= 1

    def api(self, api: Api) -> "_CountedApi":
        return _CountedApi(api, self)


class _CountedApi(Unsteady):
    def __init__(self, api: Api, calls: Counted):
        super().__init__(api, failures=0)
        self._calls = calls

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        self._calls.before("get", name)
        return super().get(resource, name, namespace)
