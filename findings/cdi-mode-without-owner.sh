#!/bin/bash
# From 1.1.0 on, the CDI library gives a device in a container the mode of the host's node, but not its owner. A node
# with mode 0640 that belongs to a group is one that only root, or the user of the container, can open then. Before,
# the mode was left to the runtime. Named pipes stand for device nodes here: the library treats both alike.
# Seen with tags.cncf.io/container-device-interface 1.0.1, 1.1.0 and 1.1.2.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOPATH=$work/go GOFLAGS="-modcacherw -mod=mod"

mkdir specs
mkfifo --mode=0640 card
[ "$(id -u)" != 0 ] || chgrp 1234 card
cat > specs/gpu.yaml <<END
cdiVersion: 0.5.0
kind: vendor.com/gpu
devices:
- {name: a, containerEdits: {deviceNodes: [{path: /dev/card, hostPath: $work/card}]}}
END
cat > main.go <<'END'
package main

import (
	"fmt"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	cache, _ := cdi.NewCache(cdi.WithSpecDirs("specs"), cdi.WithAutoRefresh(false))
	for _, user := range []uint32{0, 1000} {
		spec := &oci.Spec{Process: &oci.Process{User: oci.User{UID: user}}}
		if _, err := cache.InjectDevices(spec, "vendor.com/gpu=a"); err != nil {
			panic(err)
		}
		device := spec.Linux.Devices[0]
		mode, uid, gid := "-", "-", "-"
		if device.FileMode != nil {
			mode = fmt.Sprintf("%04o", *device.FileMode)
		}
		if device.UID != nil {
			uid = fmt.Sprint(*device.UID)
		}
		if device.GID != nil {
			gid = fmt.Sprint(*device.GID)
		}
		fmt.Printf("user %d: mode %s, owner %s:%s\n", user, mode, uid, gid)
	}
}
END
for version in 1.0.1 1.1.0 1.1.2; do
    rm -f go.mod go.sum
    go mod init owner 2>/dev/null
    go get "tags.cncf.io/container-device-interface@v$version"
    go run . | sed "s/^/$version, /"
done | tee seen

diff - seen <<'END'
1.0.1, user 0: mode -, owner -:-
1.0.1, user 1000: mode -, owner 1000:-
1.1.0, user 0: mode 0640, owner -:-
1.1.0, user 1000: mode 0640, owner 1000:-
1.1.2, user 0: mode 0640, owner -:-
1.1.2, user 1000: mode 0640, owner 1000:-
END
