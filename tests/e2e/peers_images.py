"""Images of other projects' manifests: busybox under their names, on every node."""

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from testclusters.images import busybox_layer
from testclusters.kind import KindCluster
from testclusters.oci import Layer, write_archive

_SCRIPTS = {
    "bin/bash": '#!/bin/sh\nexec sh "$@"\n',
    "cuda-samples/vectorAdd": "#!/bin/sh\nexec sleep 100000\n",
}
"""What the commands in manifests of peers run."""


def images_in(manifest: str) -> set[str]:
    """The images that a manifest names."""
    return set(re.findall(r"^[\s-]*image:\s*(\S+)", manifest, re.MULTILINE))


def load(cluster: KindCluster, references: Iterable[str]) -> None:
    """Load one image onto all nodes under these names. Without a command in the pod, its containers sleep."""
    names = sorted(set(references))
    config = {"Entrypoint": ["/bin/sh", "-c", "exec sleep 100000"], "Env": ["PATH=/bin"]}
    with tempfile.TemporaryDirectory(dir=cluster.folder) as folder:
        with Layer(Path(folder, "scripts.tar")) as out:
            for path, text in _SCRIPTS.items():
                out.file(path, text)
        archive = Path(folder, "image.tar")
        write_archive(archive, names, [busybox_layer(), Path(folder, "scripts.tar")], config)
        cluster.kind("load", "image-archive", archive)
