"""A connection to a device plugin, and the error of one that is not made."""

import threading
from typing import Any

import grpc

from kubeletplugin.hardware.deviceplugin.metrics import RefusalReason
from kubeletplugin.hardware.deviceplugin.registry import Registration


class RefusedError(Exception):
    """The error that a registration is answered with. Its code says by default that the request is invalid."""

    def __init__(self, reason: RefusalReason, message: str, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT):
        super().__init__(message)
        self.reason = reason
        self.code = code


class DevicePluginConnection:
    """A connection to a device plugin."""

    def __init__(self, registration: Registration, channel: grpc.Channel, stub: Any, began: float):
        self.registration = registration
        self.began = began
        """When it was reached (``Clock.monotonic``)."""
        self.has_listed = False
        self.channel = channel
        self.stub = stub
        self.turn = threading.Lock()
        """Held while it is asked: the kubelet asks one question after another."""
