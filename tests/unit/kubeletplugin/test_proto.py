import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROTO = Path(__file__).parents[3] / "kubeletplugin" / "proto"


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="the generator is not installed")
@pytest.mark.skipif(not PROTO.exists(), reason="the wheel has no script for the generator")
def test_the_generated_code_is_what_the_proto_files_generate(tmp_path: Path) -> None:
    script = PROTO / "regenerate.sh"
    subprocess.run([str(script), str(tmp_path)], check=True, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"})
    generated = {path.name: path.read_bytes() for path in (tmp_path / "kubeletplugin" / "proto").iterdir()}
    committed = {path.name: path.read_bytes() for path in PROTO.iterdir() if "_pb2" in path.name and path.is_file()}
    assert generated == committed


@pytest.mark.parametrize(
    ("module", "service"),
    [
        ("dra_v1", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"),
        ("dra_health_v1", "v1.DRAResourceHealth"),
        ("dra_health_v1alpha1", "v1alpha1.DRAResourceHealth"),
        ("pluginregistration_v1", "pluginregistration.Registration"),
        ("deviceplugin_v1beta1", "v1beta1.DevicePlugin"),
        ("deviceplugin_v1beta1", "v1beta1.Registration"),
    ],
)
def test_every_service_has_the_full_name_the_kubelet_calls(module: str, service: str) -> None:
    generated = importlib.import_module(f"kubeletplugin.proto.{module}_pb2")
    assert service in {s.full_name for s in generated.DESCRIPTOR.services_by_name.values()}
