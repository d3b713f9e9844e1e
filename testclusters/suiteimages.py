"""The images of pods of suites that others wrote: their programs are built here, on a shell instead of a distribution.

The images have the names that the suites use, so that a suite runs unchanged and without a registry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testclusters import cache, images, oci, programs

_REGISTRY = "registry.k8s.io"
_USERS = "user-defined-in-image:x:1000:1000::/:/bin/sh\n"
"""What tests of supplemental groups expect of agnhost."""
_GROUPS = "group-defined-in-image:x:50000:user-defined-in-image\n"


@dataclass(frozen=True)
class _Image:
    program: str
    """Of `programs.KUBERNETES_SUITES`; "": the shell alone."""
    path: str = ""
    config: Mapping[str, object] = field(default_factory=dict)
    more: Callable[[oci.Layer], None] = lambda layer: None


def _of_agnhost(layer: oci.Layer) -> None:
    layer.link("agnhost-2", "agnhost")
    layer.folder("uploads", 0o777)
    layer.file("etc/passwd", f"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n{_USERS}", 0o644)
    layer.file("etc/group", f"root:x:0:\nnogroup:x:65534:\n{_GROUPS}", 0o644)


_IMAGES = {
    "agnhost": _Image("agnhost", "agnhost", {"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}, _of_agnhost),
    "hostpathplugin": _Image("hostpathplugin", "hostpathplugin", {"Entrypoint": ["/hostpathplugin"]}),
    "sample-device-plugin": _Image(
        "sample-device-plugin", "sampledeviceplugin", {"Entrypoint": ["/sampledeviceplugin", "-alsologtostderr"]}
    ),
    "busybox": _Image("", config={"Cmd": ["/bin/sh"]}),
    "nonroot": _Image("", config={"Cmd": ["/bin/sh"], "User": "1234"}),
    "pause": _Image("", config={"Entrypoint": ["/bin/sleep", "2147483647"]}),
}


def suite_image(reference: str) -> Path | None:
    """The archive of an image of Kubernetes' tests, by the name that they use; None if it cannot be built here.

    Raises `ProgramMissing` if its program cannot be built.
    """
    registry, name = reference.partition("/")[0], reference.rpartition("/")[2].partition(":")[0]
    image = _IMAGES.get(name)
    if image is None or registry != _REGISTRY:  # tests expect that those of other registries cannot be had
        return None
    layers = [images.busybox_layer(), *([_layer(image)] if image.program else [])]
    return images.image(f"suite-{name}", reference, layers, {"Env": ["PATH=/bin"], **image.config})


def shell_image(reference: str) -> Path:
    """The archive of an image with a shell and its usual commands, under the name of a distribution's image."""
    return images.image("suite-shell", reference, [images.busybox_layer()], {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]})


def _layer(image: _Image) -> Path:
    built = programs.KUBERNETES_SUITES.build()

    def make(folder: Path) -> None:
        with oci.Layer(folder / "layer.tar") as out:
            out.folder("tmp", 0o1777)
            out.file(image.path, built / image.program)
            image.more(out)

    key = cache.content_key(built.name, image.path, Path(__file__))
    return cache.cached_folder(f"layer-{image.program}", key, make) / "layer.tar"
