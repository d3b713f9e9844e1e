"""The image of a cluster's nodes: kind's published image if it is available, else one built here.

A node image that is built here consists of Debian packages, our builds of Kubernetes and containerd, and the files
under `node/`, which are laid out as in the image. The images of the control plane are files inside it, so that a
cluster needs no registry.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from testclusters import cache, debian, images, oci, programs, progress
from testclusters.commands import run
from testclusters.daemon import Docker

PUBLISHED = {
    "1.37": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
    "1.36": "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed",
}
"""The node images of kind v0.33.0, from its release notes; there is none of a version without a release."""

BUILT_IMAGE = "lode-test/node"
"""The name of the images built here; their tag is the version of Kubernetes and the key of their content."""

_NODE = Path(__file__).parent / "node"
_PACKAGES = ("systemd", "systemd-sysv", "iproute2", "iptables", "mount", "util-linux", "procps", "kmod", "runc")
_PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MASKED_UNITS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "getty.target",
    "systemd-logind.service",
    "systemd-udevd.service",
)
"""Units that Debian starts and that a node in a container does not need."""

_IPTABLES = "usr/sbin/xtables-nft-multi"


def provide(docker: Docker, kubernetes: str) -> str:
    """The name of a node image for a minor version of Kubernetes; `docker` has the image when this returns."""
    published = PUBLISHED.get(kubernetes, "")
    if published and not docker.private:
        if docker.run("docker", "image", "inspect", published, check=False).returncode == 0:
            return published
        with progress.progress_step(f"pulling {published}"):
            pulled = docker.run("docker", "pull", published, check=False, timeout=900)
        if pulled.returncode == 0:
            return published
        progress.print_status(f"    cannot pull the image, building one: {pulled.stderr.strip()[-200:]}")
    return _build(docker, kubernetes)


def _build(docker: Docker, kubernetes: str) -> str:
    program = programs.kubernetes(kubernetes)
    kube, runtime = program.build(), programs.CONTAINERS.build()
    root = debian.root_filesystem("node", _PACKAGES)
    own = (_NODE, Path(__file__), str(programs.ENVIRONMENT))
    name = f"{BUILT_IMAGE}:{kubernetes}-{cache.content_key(kube.name, runtime.name, root.name, *own)}"
    if docker.run("docker", "image", "inspect", name, check=False).returncode == 0:
        return name
    with (
        progress.progress_step(f"building the node image for Kubernetes {program.version}"),
        tempfile.TemporaryDirectory(dir=cache.root(), prefix=".node-") as folder,
    ):
        _overlay(Path(folder), kube, runtime)
        (Path(folder) / "kind/version").write_text(f"{program.version}\n")
        control_plane_images(Path(folder) / "kind/images", kube, program.version)
        _import(docker, root, Path(folder), name)
    _remove_others(docker, kubernetes, name)
    return name


def _remove_others(docker: Docker, kubernetes: str, name: str) -> None:
    """Remove earlier images of this version; Docker keeps those that a cluster uses."""
    listed = docker.run("docker", "image", "list", "--format", "{{.Repository}}:{{.Tag}}", BUILT_IMAGE).stdout.split()
    old = [other for other in listed if other.startswith(f"{BUILT_IMAGE}:{kubernetes}-") and other != name]
    if old:
        docker.run("docker", "image", "rm", *old, check=False)


def _overlay(folder: Path, kube: Path, runtime: Path) -> None:
    """Write to `folder` the files that a node has in addition to Debian's."""
    folder.chmod(0o755)
    shutil.copytree(_NODE, folder, dirs_exist_ok=True)
    binaries, plugins, units = folder / "usr/local/bin", folder / "opt/cni/bin", folder / "etc/systemd/system"
    plugins.mkdir(parents=True)
    (units / "multi-user.target.wants").mkdir()
    os.link(kube / "kubernetes", binaries / "kubernetes")
    for name in ("kubeadm", "kubectl", "kubelet"):
        (binaries / name).symlink_to("kubernetes")
    for program in sorted(runtime.iterdir()):
        os.link(program, (binaries if program.name.startswith(("containerd", "ctr")) else plugins) / program.name)
    for name in ("containerd.service", "images.service", "kubelet.service"):
        (units / "multi-user.target.wants" / name).symlink_to(f"../{name}")
    for name in _MASKED_UNITS:
        (units / name).symlink_to("/dev/null")
    (units / "default.target").symlink_to("/usr/lib/systemd/system/multi-user.target")


def control_plane_images(folder: Path, kube: Path, version: str) -> None:
    """Write archives with the images that this version's kubeadm lists, except DNS, which the clusters do not have.

    Args:
        folder: where the archives `control-plane.tar` and `pause.tar` are written.
        kube: the folder of the programs.
        version: theirs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = debian.root_filesystem("node", _PACKAGES)
    listed = run([kube / "kubeadm", "config", "images", "list", f"--kubernetes-version={version}"]).stdout.split()
    wanted = [name for name in listed if "/coredns:" not in name and "/pause:" not in name]
    layer = folder / "layer"
    with oci.Layer(layer) as out:
        out.folder("tmp", 0o1777)
        out.file("usr/local/bin/kubernetes", kube / "kubernetes")
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler"):
            out.link(f"usr/local/bin/{name}", "kubernetes")
        _put_iptables(out, root)
    variables = {"PATH": _PATH, **programs.ENVIRONMENT}
    environment = [f"{name}={value}" for name, value in variables.items()]
    oci.write_archive(folder / "control-plane.tar", wanted, [layer], {"Env": environment})
    layer.unlink()
    pause = {"Entrypoint": ["/bin/sleep", "2147483647"], "Env": ["PATH=/bin"]}
    oci.write_archive(folder / "pause.tar", ["localhost/pause:1"], [images.busybox_layer()], pause)


def _put_iptables(out: oci.Layer, root: Path) -> None:
    """Add iptables with its libraries and extensions from `root` to a layer, for kube-proxy."""
    out.file(_IPTABLES, root / _IPTABLES)
    for name in ("iptables", "ip6tables"):
        for suffix in ("", "-save", "-restore"):
            out.link(f"usr/sbin/{name}{suffix}", "xtables-nft-multi")
    extensions = sorted(root.glob("usr/lib/*-linux-gnu/xtables/*"))
    inside = [f"/{path.relative_to(root)}" for path in extensions]
    for library, source in debian.libraries(root, [f"/{_IPTABLES}", *inside]).items():
        out.file(f"usr{library}", source)
    out.link("lib", "usr/lib")
    out.link("lib64", "usr/lib64")
    for extension, path in zip(extensions, inside, strict=True):
        if extension.is_symlink():
            out.link(path, str(extension.readlink()))
        else:
            out.file(path, extension)


def _import(docker: Docker, root: Path, overlay: Path, name: str) -> None:
    """Import the root file system and the overlay as the image `name`."""
    command = docker.command("docker", "import", "-c", 'ENTRYPOINT ["/usr/local/bin/entrypoint"]')
    command += ["-c", f"ENV container=docker PATH={_PATH}", "-", name]
    # Docker accepts each path once, so only those folders of the overlay are added that the root does not have.
    inside = [path.relative_to(overlay) for path in sorted(overlay.rglob("*"))]
    added = [f"./{path}" for path in inside if not (root / path).is_dir()]
    tar = ["tar", "-c", *debian.excludes(), "-C", str(root), ".", "--no-recursion", "-C", str(overlay), *added]
    with subprocess.Popen(tar, stdout=subprocess.PIPE) as packing:
        importing = subprocess.run(
            command, stdin=packing.stdout, capture_output=True, text=True, check=False, env=docker.environment
        )
    if importing.returncode or packing.returncode:
        raise RuntimeError(f"docker import of {name} failed: {importing.stderr}")
