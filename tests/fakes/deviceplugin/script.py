"""What a device plugin has and how it behaves, as values.

The behaviours are those that were read from the sources of vendors' plugins, and seen when some of them ran.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from kubeletplugin.proto import deviceplugin_v1beta1_pb2 as pb

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
MOST_BYTES = 4 * 1024 * 1024
"""The longest message that a client of gRPC takes, if it is not told otherwise."""


class Reaction(Enum):
    """What tells a plugin that its host has started again. It serves and registers anew then."""

    HOST_CREATED = auto()
    """``kubelet.sock`` appears. NVIDIA, Cambricon, Habana."""
    HOST_REMOVED_AND_CREATED = auto()
    """It stops serving when ``kubelet.sock`` goes, and starts only from there. What is built on kubevirt's manager:
    AMD, Hygon, Biren, HPE."""
    OWN_SOCKET_REMOVED = auto()
    """Its own socket goes. Intel, SR-IOV, RDMA, generic-device-plugin."""
    STREAM_ENDED = auto()
    """The host ends the stream of devices. Ascend."""
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Listed:
    """A device in the list of a plugin."""

    id: str
    health: str = HEALTHY
    numa: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileOfDevice:
    """A device file in an answer."""

    host: str
    container: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class FileOrFolder:
    """A mount in an answer."""

    host: str
    container: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What a container gets."""

    envs: dict[str, str] = field(default_factory=dict)
    mounts: tuple[FileOrFolder, ...] = ()
    devices: tuple[FileOfDevice, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()

    def message(self) -> pb.ContainerAllocateResponse:
        """The answer as a message."""
        return pb.ContainerAllocateResponse(
            envs=self.envs,
            mounts=[
                pb.Mount(container_path=each.container, host_path=each.host, read_only=each.read_only)
                for each in self.mounts
            ],
            devices=[
                pb.DeviceSpec(container_path=each.container, host_path=each.host, permissions=each.permissions)
                for each in self.devices
            ],
            annotations=self.annotations,
            cdi_devices=[pb.CDIDevice(name=name) for name in self.cdi_devices],
        )


class Refused(Exception):
    """The plugin answers with an error, in the words of the vendor."""


class Crashed(Exception):
    """The process ends in the call, which gets no answer."""


Allocate = Callable[[Sequence[str]], "Answer | None"]
"""The answer for a container that gets the devices with these ids; None: a response without any container.

May raise ``Refused`` and ``Crashed``, and may wait."""


def in_the_variable(ids: Sequence[str]) -> Answer:
    """The devices in ``EXAMPLE_VISIBLE_DEVICES``, whatever they are: some vendors' plugins ask for no proof either."""
    return Answer(envs={"EXAMPLE_VISIBLE_DEVICES": ",".join(ids)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A plugin's devices and behaviour."""

    resource: str = "example.com/card"
    devices: tuple[Listed, ...] = (Listed("card-a"), Listed("card-b"))
    allocate: Allocate = in_the_variable
    endpoint: str = "example.sock"
    stamps_endpoint: bool = False
    """Whether each start gives the socket another name (generic-device-plugin)."""
    announced_endpoint: str = ""
    """The endpoint that it registers, if that is not the name of its socket."""
    version: str = "v1beta1"
    reaction: Reaction = Reaction.HOST_CREATED

    registers_after_seconds: float = 0.0
    """The pause between serving and registering."""
    registers_times: int = 1
    """How often it registers while it is healthy (NVIDIA twice, 30 s after a failed start)."""
    register_again_seconds: float = 0.1
    """The pause after a refused registration."""
    host_seconds: float = 5.0
    """How long it waits for ``kubelet.sock`` in its dial."""
    ends_without_host: bool = False
    """Whether the process ends if there is no ``kubelet.sock`` in that time, or it was refused (RDMA v1.5.3)."""
    ends_with_stream: bool = False
    """Whether the process ends when the host ends the stream (AMD)."""

    has_options: bool = True
    """Whether it has the call GetDevicePluginOptions."""
    pre_start_required: bool = False
    pre_start_fails: str = ""
    """The message with which PreStartContainer fails; "" if it does not."""
    offers_preferred: bool = False
    """Whether it says that it has GetPreferredAllocation. If not, that call ends the process (RDMA v1.5.3)."""

    first_list_after_seconds: float = 0.0
    """The pause before the first list of a stream."""
    breaks_after_lists: int | None = None
    """After so many lists, the stream ends with an error."""
    forgets_health: bool = True
    """Whether a new registration makes all devices healthy again: most plugins keep no fault."""


def shares_of(card: str, number: int, separator: str = "::") -> tuple[Listed, ...]:
    """The replicas of a card, as plugins that share cards list them."""
    return tuple(Listed(f"{card}{separator}{replica}") for replica in range(number))


def many(number: int, length: int = 40) -> tuple[Listed, ...]:
    """Devices with ids of this length."""
    return tuple(Listed(f"{at:0{length}d}") for at in range(number))


TOO_LARGE = many(MOST_BYTES // 400, 400)
"""A list of more than ``MOST_BYTES``."""
