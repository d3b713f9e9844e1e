"""Writing container images without a daemon: layers as tar files, images as archives in the OCI layout."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

_MEDIA = "application/vnd.oci.image."
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}

SOURCE_DATE_EPOCH = 0
"""The time of every file and image: what is built twice is equal."""


class Layer:
    """Writes a layer to a tar file; all its entries belong to root.

    A context manager: the file is complete when the `with` block ends.
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
        """Add an empty folder at `path`."""
        self._tar.addfile(_member(path, mode, tarfile.DIRTYPE))

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link to `target` at `path`."""
        member = _member(path, 0o777, tarfile.SYMTYPE)
        member.linkname = target
        self._tar.addfile(member)

    def file(self, path: str, content: Path | bytes | str, mode: int = 0o755) -> None:
        """Add a regular file at `path`; `content` is the path of a file, bytes or text."""
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
        """Add everything below `folder`, with modes, at `path`; the empty path is the root."""

        def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = SOURCE_DATE_EPOCH
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
    """Write one image with all of `references` as names and with the run configuration `config` (`Entrypoint`, ...)."""
    platform = {"architecture": _ARCHITECTURE.get(os.uname().machine, os.uname().machine), "os": "linux"}
    rootfs = {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]}
    created = datetime.fromtimestamp(SOURCE_DATE_EPOCH, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    configuration = json.dumps({**platform, "created": created, "config": config, "rootfs": rootfs}).encode()
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
            "annotations": {"io.containerd.image.name": canonical_name(name)},
        }
        for name in references
    ]
    with Layer(archive) as out:
        out.file("oci-layout", '{"imageLayoutVersion":"1.0.0"}', 0o644)
        out.file("index.json", json.dumps({"schemaVersion": 2, "manifests": entries}), 0o644)
        blobs: list[Path | bytes] = [configuration, manifest, *layers]
        for blob in blobs:
            out.file(f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}", blob, 0o644)


def blob_names(archive: Path) -> set[str]:
    """The names of an archive's blobs; each name contains the digest of the content."""
    with tarfile.open(archive) as tar:
        return {name for name in tar.getnames() if name.startswith("blobs/")}


def write_archive_without(archive: Path, present: Collection[str], thin: Path) -> None:
    """Copy `archive` to `thin` without the blobs `present`, for an image store that already has them."""
    with tarfile.open(archive) as full, tarfile.open(thin, "w") as out:
        for member in full:
            if member.name not in present:
                out.addfile(member, full.extractfile(member))


def canonical_name(reference: str) -> str:
    """The full name that a container runtime uses: `lode-dra:dev` becomes `docker.io/library/lode-dra:dev`."""
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
