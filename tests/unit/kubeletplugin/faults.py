"""An API that fails for a while, and a plugin that is killed before its n-th call."""

from collections.abc import Collection, Mapping
from typing import Any

from driver.kube.api import Api, ApiCall, Unavailable
from driver.kube.decorator import ApiDecorator
from kubeletplugin.hardware import Action, Card, CardState, Edits, Handle, Hardware, Use
from tests.simulation.hardware_decorator import HardwareDecorator


class Unsteady(ApiDecorator):
    """Answers ``get`` only after it failed ``failures`` times; the plugin's preparing half uses no other call."""

    def __init__(self, api: Api, failures: int):
        super().__init__(api)
        self.failures = failures

    def call(self, call: ApiCall) -> Any:
        assert call.verb == "get", f"preparing must not call {call.verb}"
        if self.failures > 0:
            self.failures -= 1
            raise Unavailable("connection refused")
        return super().call(call)


class Killed(BaseException):
    """SIGKILL: nothing may catch it."""


class Counted:
    """Counts calls to files, hardware and API together, and kills the program before call number ``kill_before``."""

    def __init__(self, kill_before: int):
        self._left = kill_before

    def before(self, operation: str, path: str) -> None:
        if self._left == 0:
            raise Killed(f"{operation} {path}")
        self._left -= 1

    def api(self, api: Api) -> "_CountedApi":
        return _CountedApi(api, self)

    def hardware(self, hardware: Hardware) -> "_CountedHardware":
        return _CountedHardware(hardware, self)


class _CountedHardware(HardwareDecorator):
    """Killed before a change and after it, before its answer is known."""

    def __init__(self, hardware: Hardware, calls: Counted):
        super().__init__(hardware)
        self._calls = calls

    def observe(self, card: Card) -> CardState:
        self._calls.before("observe", card.uuid)
        return super().observe(card)

    def actions(self, use: Use, taken: Collection[str]) -> tuple[Action, ...]:
        self._calls.before("actions", use.device)
        return super().actions(use, taken)

    def ensure(self, action: Action) -> Handle:
        self._calls.before("ensure", action.key)
        handle = super().ensure(action)
        self._calls.before("ensured", action.key)
        return handle

    def release(self, action: Action, handle: Handle | None) -> None:
        self._calls.before("release", action.key)
        super().release(action, handle)
        self._calls.before("released", action.key)

    def edits(self, use: Use, handles: Mapping[str, Handle]) -> Edits:
        self._calls.before("edits", use.device)
        return super().edits(use, handles)


class _CountedApi(Unsteady):
    def __init__(self, api: Api, calls: Counted):
        super().__init__(api, failures=0)
        self._calls = calls

    def call(self, call: ApiCall) -> Any:
        self._calls.before(call.verb, call.name)
        return super().call(call)
