#!/bin/bash
# A PCI address without quotes is a number to PyYAML, in base 60, if all of its digits are decimal and below 60, and a
# text otherwise: what a program in Python reads depends on the slot of the card. yaml.v3 of Go reads texts.
# Seen with PyYAML 6.0.3 and go.yaml.in/yaml/v3 3.0.5.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOPATH=$work/go GOFLAGS="-modcacherw -mod=mod"

echo "[0000:03:00.0, 0000:41:00.0, 0000:65:00.0, 0000:0a:00.0]" > cards.yaml
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check PyYAML==6.0.3
cat > main.go <<'END'
package main

import (
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
)

func main() {
	text, err := os.ReadFile("cards.yaml")
	if err != nil {
		panic(err)
	}
	var cards []any
	if err := yaml.Unmarshal(text, &cards); err != nil {
		panic(err)
	}
	fmt.Println("yaml.v3:", cards)
}
END
go mod init address 2>/dev/null
go get go.yaml.in/yaml/v3@v3.0.5
{
    env/bin/python -c 'import yaml; print("PyYAML: ", *yaml.safe_load(open("cards.yaml")))'
    go run .
} | tee seen

diff - seen <<'END'
PyYAML:  180.0 2460.0 0000:65:00.0 0000:0a:00.0
yaml.v3: [0000:03:00.0 0000:41:00.0 0000:65:00.0 0000:0a:00.0]
END
