#!/bin/bash
# The name of a CDI device depends on the version of the runtime's CDI library: a name without quotes that YAML 1.1
# takes for a number or a word is another one up to 1.1.0 (through JSON), and what is written from 1.1.1 on. A PCI
# address is what is written in both.
# Seen with tags.cncf.io/container-device-interface 1.1.0 and 1.1.1 (containerd 2.4.2 has 1.1.1).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOPATH=$work/go GOFLAGS="-modcacherw -mod=mod"

mkdir specs
cat > specs/gpu.yaml <<'END'
cdiVersion: 0.5.0
kind: vendor.com/gpu
devices:
- {name: 010, containerEdits: {env: [A=1]}}
- {name: 0x10, containerEdits: {env: [A=1]}}
- {name: 1_0, containerEdits: {env: [A=1]}}
- {name: on, containerEdits: {env: [A=1]}}
- {name: 0000:41:00.0, containerEdits: {env: [A=1]}}
END
cat > main.go <<'END'
package main

import (
	"fmt"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	cache, _ := cdi.NewCache(cdi.WithSpecDirs("specs"), cdi.WithAutoRefresh(false))
	fmt.Println(strings.ReplaceAll(strings.Join(cache.ListDevices(), " "), "vendor.com/gpu=", ""))
}
END
for version in 1.1.0 1.1.1; do
    rm -f go.mod go.sum
    go mod init names 2>/dev/null
    go get "tags.cncf.io/container-device-interface@v$version"
    echo "$version: $(go run .)"
done | tee seen

diff - seen <<'END'
1.1.0: 0000:41:00.0 10 16 8 true
1.1.1: 0000:41:00.0 010 0x10 1_0 on
END
