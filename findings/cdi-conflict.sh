#!/bin/bash
# Two specs of one folder have the same CDI device, and a third one in the folder that counts for more has it, too. To
# the Go library of runtimes the device is nobody's then; the Rust crate takes the third.
# Seen with tags.cncf.io/container-device-interface 1.1.2 and the crate container-device-interface 1.1.1.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GOPATH=$work/go GOFLAGS="-modcacherw -mod=mod" CARGO_TARGET_DIR=$work/target

mkdir -p static dynamic rust/src
for file in static/a static/b dynamic/c; do
    cat > "$file.yaml" <<END
cdiVersion: 0.5.0
kind: vendor.com/gpu
devices:
- {name: a, containerEdits: {env: [SPEC=$file]}}
END
done
cat > main.go <<'END'
package main

import (
	"fmt"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	cache, _ := cdi.NewCache(cdi.WithSpecDirs("static", "dynamic"), cdi.WithAutoRefresh(false))
	fmt.Println("Go:", len(cache.ListDevices()), "devices")
}
END
cat > rust/Cargo.toml <<'END'
[package]
name = "conflict"
version = "0.0.0"
edition = "2021"

[dependencies]
container-device-interface = "=1.1.1"
END
cat > rust/src/main.rs <<'END'
use container_device_interface::{cache, spec_dirs};

fn main() {
    let folders = ["static", "dynamic"];
    let cache = cache::new_cache(vec![cache::with_auto_refresh(false), spec_dirs::with_spec_dirs(&folders)]);
    println!("Rust: {} devices", cache.lock().unwrap().list_devices().len());
}
END
go mod init conflict 2>/dev/null
go get tags.cncf.io/container-device-interface@v1.1.2
{
    go run .
    cargo run --quiet --manifest-path rust/Cargo.toml
} | tee seen

diff - seen <<'END'
Go: 0 devices
Rust: 1 devices
END
