// Peer drives Kubernetes' own allocator as kube-scheduler does, on input that another allocator reads, too.
//
//	peer allocate CLUSTER RUNS   one line of JSON per entry of RUNS
//	peer match CLUSTER SELECTORS one line of JSON per entry of SELECTORS
//
// CLUSTER holds one API object per line: Node, DeviceClass, ResourceSlice, and ResourceClaim for what is in use.
// RUNS and SELECTORS are JSON lists, see run and evaluateAll.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func command(arguments []string) error {
	if len(arguments) != 3 {
		return fmt.Errorf("usage: peer allocate CLUSTER RUNS, or peer match CLUSTER SELECTORS")
	}
	c, err := readCluster(arguments[1])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(arguments[2])
	if err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	switch arguments[0] {
	case "allocate":
		var runs []run
		if err := json.Unmarshal(text, &runs); err != nil {
			return fmt.Errorf("%s: %w", arguments[2], err)
		}
		for _, r := range runs {
			answer, err := allocateAll(c, r)
			if err != nil {
				return err
			}
			if err := output.Encode(answer); err != nil {
				return err
			}
		}
	case "match":
		var selectors []string
		if err := json.Unmarshal(text, &selectors); err != nil {
			return fmt.Errorf("%s: %w", arguments[2], err)
		}
		for _, selector := range selectors {
			if err := output.Encode(evaluateAll(c, selector)); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("unknown command %q", arguments[0])
	}
	return nil
}

// cpuTime is what this process has used on all processors.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
