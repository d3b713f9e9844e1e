"""Resources that cannot be served are refused by their names, with the reason and the way out."""

import pytest

from kubeletplugin.hardware.deviceplugin.refusals import looks_for_its_pod, refusal_of

REFUSED = """
aliyun.com/gpu-mem aliyun.com/gpu-count nvidia.com/gpumem nvidia.com/gpumem-percentage nvidia.com/gpucores
huawei.com/Ascend910-vgpu volcano.sh/vgpu-number enflame.com/shared-gcu enflame.com/drs-gcu mthreads.com/vgpu
metax-tech.com/sgpu kunlunxin.com/vxpu cambricon.com/mlu.smlu.vcore cambricon.com/mlu.smlu.vmemory
cambricon.com/real-mlu-counts hygon.com/dcu hygon.com/dcunum hygon.com/hcunum hygon.com/hcucores akri.sh/camera-1a2b3c
""".split()
SERVED = """
nvidia.com/gpu nvidia.com/gpu.shared nvidia.com/mig-1g.5gb amd.com/gpu gpu.intel.com/i915 gpu.intel.com/xe
qat.intel.com/cy cambricon.com/mlu cambricon.com/mlu.share hygon.com/hcu iluvatar.com/gpu birentech.com/gpu
habana.ai/gaudi furiosa.ai/rngd rebellions.ai/ATOM tenstorrent.com/n150 rdma/hca_shared_devices_a squat.ai/serial
smarter-devices/video0 aws.ec2.nitro/nitro_enclaves devices.kubevirt.io/kvm huawei.com/Ascend910 mthreads.com/gpu
""".split()


@pytest.mark.parametrize("resource", REFUSED)
def test_what_looks_for_its_pod_is_refused(resource: str) -> None:
    assert "run that device plugin under the kubelet" in refusal_of(resource)


@pytest.mark.parametrize("resource", SERVED)
def test_what_answers_by_the_ids_alone_is_served(resource: str) -> None:
    assert refusal_of(resource) == ""


@pytest.mark.parametrize(
    "resource", ["", "gpu", "/gpu", "amd.com/", "amd.com/a/b", "amd.com/-x", "AMD.com/gpu", f"a/{'x' * 64}", "a b/c"]
)
def test_what_is_no_extended_resource_is_refused(resource: str) -> None:
    assert "is not the name of an extended resource" in refusal_of(resource)


@pytest.mark.parametrize("resource", ["kubernetes.io/x", "node.kubernetes.io/x", "requests.amd.com/gpu"])
def test_names_of_kubernetes_are_refused(resource: str) -> None:
    assert "keeps for itself" in refusal_of(resource)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("rpc error: no binding pod found: Pending Pod of this node", True),
        ("not get valid pod", True),
        ("device card-9 is unhealthy", False),
    ],
)
def test_a_refusal_shows_that_a_device_plugin_looks_for_its_pod(error: str, expected: bool) -> None:
    assert looks_for_its_pod(error) == expected
