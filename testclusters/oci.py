"""Container images written by hand: layers are tar files, an image is an archive in OCI layout."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_MEDIA = "application/vnd.oci.image."
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}


class Layer:
    """Writes a layer to a tar file; what is put into it belongs to root.

    A context manager: the file is complete when it ends.
    """

    def __init__(self, path: Path) -> None:
        self._tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tar.close()

    def folder(self, path: str, mode: int = 0o755) -> None:
        """An empty folder at `path`."""
        self._tar.addfile(_member(path, mode, tarfile.DIRTYPE))

    def link(self, path: str, target: str) -> None:
        """A symbolic link at `path`."""
        member = _member(path, 0o777, tarfile.SYMTYPE)
        member.linkname = target
        self._tar.addfile(member)

    def file(self, path: str, content: Path | bytes | str, mode: int = 0o755) -> None:
        """A regular file at `path`, with the content of a file or with what is given."""
        data = (
            content.read_bytes()
            if isinstance(content, Path)
            else content.encode()
            if isinstance(content, str)
            else content
        )
        member = _member(path, mode, tarfile.REGTYPE)
        member.size = len(data)
        self._tar.addfile(member, io.BytesIO(data))

    def tree(self, path: str, folder: Path) -> None:
        """Everything below `folder`, with its modes and times, at `path` (`` is the root)."""

        def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            return member

        self._tar.add(folder, path or ".", filter=owned_by_root)


def _member(path: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode = mode
    member.type = kind
    return member


def write_archive(
    archive: Path, references: Sequence[str], layers: Sequence[Path], config: Mapping[str, object]
) -> None:
    """Write one image, known by all `references`, with the run configuration `config` (`Entrypoint`, `Env`, ...)."""
    platform = {"architecture": _ARCHITECTURE.get(os.uname().machine, os.uname().machine), "os": "linux"}
    rootfs = {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]}
    configuration = json.dumps({**platform, "config": config, "rootfs": rootfs}).encode()
    parts = [_descriptor("layer.v1.tar", layer) for layer in layers]
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}manifest.v1+json",
            "config": _descriptor("config.v1+json", configuration),
            "layers": parts,
        }
    ).encode()
    entries = [
        {
            **_descriptor("manifest.v1+json", manifest),
            "platform": platform,
            "annotations": {"io.containerd.image.name": normal(name)},
        }
        for name in references
    ]
    with Layer(archive) as out:
        out.file("oci-layout", '{"imageLayoutVersion":"1.0.0"}', 0o644)
        out.file("index.json", json.dumps({"schemaVersion": 2, "manifests": entries}), 0o644)
        blobs: list[Path | bytes] = [configuration, manifest, *layers]
        for blob in blobs:
            out.file(f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}", blob, 0o644)


def blobs(archive: Path) -> set[str]:
    """The names of an archive's blobs, each of which says the content."""
    with tarfile.open(archive) as tar:
        return {name for name in tar.getnames() if name.startswith("blobs/")}


def write_thin(archive: Path, present: Collection[str], thin: Path) -> None:
    """Write an archive without the blobs `present`, for a store that has these."""
    with tarfile.open(archive) as full, tarfile.open(thin, "w") as out:
        for member in full:
            if member.name not in present:
                out.addfile(member, full.extractfile(member))


def normal(reference: str) -> str:
    """An image's name as a container runtime completes it: `lode-dra:dev` becomes `docker.io/library/lode-dra:dev`."""
    first, slash, _ = reference.partition("/")
    if not slash:
        return f"docker.io/library/{reference}"
    return reference if "." in first or ":" in first or first == "localhost" else f"docker.io/{reference}"


def _descriptor(media: str, blob: Path | bytes) -> dict[str, object]:
    size = blob.stat().st_size if isinstance(blob, Path) else len(blob)
    return {"mediaType": _MEDIA + media, "digest": _digest(blob), "size": size}


def _digest(blob: Path | bytes) -> str:
    if isinstance(blob, bytes):
        return f"sha256:{hashlib.sha256(blob).hexdigest()}"
    with blob.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
