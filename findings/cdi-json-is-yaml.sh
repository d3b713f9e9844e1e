#!/bin/bash
# A CDI spec in a file NAME.json is read as YAML, so valid JSON is refused, with an error, if it has a raw U+007F, or a
# pair of escapes for a character beyond U+FFFF, as Python's json.dumps writes by default. The library itself writes a
# spec in JSON that it does not read back.
# Seen with tags.cncf.io/container-device-interface 1.1.2 and Python 3.11.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOPATH=$work/go GOFLAGS="-modcacherw -mod=mod"

mkdir pairs raw escaped written
python3 - <<'END'
import json

def spec(text):
    edits = {"env": [f"A={text}"]}
    return {"cdiVersion": "0.5.0", "kind": "vendor.com/gpu", "devices": [{"name": "a", "containerEdits": edits}]}

smile, delete = "\U0001f600", "\x7f"
open("pairs/gpu.json", "w").write(json.dumps(spec(smile)))
open("raw/gpu.json", "w").write(json.dumps(spec(delete), ensure_ascii=False))
open("escaped/gpu.json", "w").write(json.dumps(spec(smile + delete), ensure_ascii=False).replace(delete, "\\u007f"))
END
cat > main.go <<'END'
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

func main() {
	writer, _ := cdi.NewCache(cdi.WithSpecDirs("written"), cdi.WithAutoRefresh(false))
	edits := specs.ContainerEdits{Env: []string{"A=\x7f"}}
	spec := &specs.Spec{Version: "0.5.0", Kind: "vendor.com/gpu", Devices: []specs.Device{{Name: "a", ContainerEdits: edits}}}
	if err := writer.WriteSpec(spec, "gpu.json"); err != nil {
		panic(err)
	}
	for _, folder := range []string{"pairs", "raw", "escaped", "written"} {
		text, err := os.ReadFile(folder + "/gpu.json")
		if err != nil {
			panic(err)
		}
		cache, _ := cdi.NewCache(cdi.WithSpecDirs(folder), cdi.WithAutoRefresh(false))
		fmt.Printf("%s: valid JSON %t, devices %d\n", folder, json.Valid(text), len(cache.ListDevices()))
	}
}
END
go mod init json 2>/dev/null
go get tags.cncf.io/container-device-interface@v1.1.2 tags.cncf.io/container-device-interface/specs-go
go run . | tee seen

diff - seen <<'END'
pairs: valid JSON true, devices 0
raw: valid JSON true, devices 0
escaped: valid JSON true, devices 1
written: valid JSON true, devices 0
END
