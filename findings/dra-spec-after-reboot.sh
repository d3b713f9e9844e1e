#!/bin/bash
# A node restarts: /var/run is empty then, and the kubelet has a pod's claim prepared again before it starts the
# containers. The example driver, which others are made from, finds the claim in its checkpoint on the disk, says that
# it is prepared, and writes no CDI spec. So a runtime does not find the device whose name the kubelet hands on.
# Seen with sigs.k8s.io/dra-example-driver 0.4.0 and tags.cncf.io/container-device-interface 1.1.2.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOPATH=$work/go GOFLAGS=-modcacherw

module=$(go mod download -json sigs.k8s.io/dra-example-driver@v0.4.0 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
cp -r "$module" driver
# Its programs are package main, so that only a test inside can call them.
cat > driver/cmd/dra-example-kubeletplugin/reboot_test.go <<'END'
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/dra-example-driver/internal/profiles/gpu"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func TestReboot(t *testing.T) {
	disk, run := t.TempDir(), filepath.Join(t.TempDir(), "cdi")
	flags := &Flags{
		nodeName: "n1", cdiRoot: run, kubeletPluginsDirectoryPath: disk, profile: "gpu", driverName: "gpu.example.com",
	}
	config := &Config{flags: flags, profile: gpu.NewProfile("n1", 1, 0, false, false, false)}
	os.MkdirAll(config.DriverPluginPath(), 0o750)
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default", UID: "a"},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0"},
			}},
		}},
	}
	for _, when := range []string{"first", "restarted", "rebooted"} {
		if when == "rebooted" {
			os.RemoveAll(run)
		}
		state, err := NewDeviceState(config)
		if err != nil {
			t.Fatal(err)
		}
		prepared, err := state.Prepare(context.Background(), claim)
		if err != nil {
			t.Fatal(err)
		}
		runtime, _ := cdi.NewCache(cdi.WithSpecDirs(run), cdi.WithAutoRefresh(false))
		known := 0
		names := prepared[0].GetCdiDeviceIds()
		for _, name := range names {
			if runtime.GetDevice(name) != nil {
				known++
			}
		}
		fmt.Printf("%s: %d of %d CDI devices are in a spec\n", when, known, len(names))
	}
}
END
go -C driver test -count=1 -v -run TestReboot ./cmd/dra-example-kubeletplugin > all || { cat all; exit 1; }
grep CDI all | tee seen

diff - seen <<'END'
first: 2 of 2 CDI devices are in a spec
restarted: 2 of 2 CDI devices are in a spec
rebooted: 1 of 2 CDI devices are in a spec
END
