"""Messages of device plugins as values."""

from collections.abc import Iterator
from typing import Final

from kubeletplugin.hardware.deviceplugin.answers import AnsweredDevice, AnsweredMount, PluginAnswer
from kubeletplugin.hardware.deviceplugin.reported import Reported
from kubeletplugin.proto import deviceplugin_v1beta1_pb2 as messages

_HEALTHY: Final = "Healthy"


def reported_in(answer: messages.ListAndWatchResponse) -> Iterator[Reported]:
    """The devices of a list."""
    for device in answer.devices:
        nodes = [node.ID for node in device.topology.nodes if node.ID >= 0]
        yield Reported(device.ID, device.health == _HEALTHY, min(nodes) if nodes else None)


def answer_from(raw: messages.ContainerAllocateResponse) -> PluginAnswer:
    """The answer for one container."""
    return PluginAnswer(
        env=dict(raw.envs),
        mounts=tuple(AnsweredMount(it.container_path, it.host_path, it.read_only) for it in raw.mounts),
        devices=tuple(AnsweredDevice(it.container_path, it.host_path, it.permissions) for it in raw.devices),
        annotations=dict(raw.annotations),
        cdi_devices=tuple(device.name for device in raw.cdi_devices),
    )
