package main

import (
	"context"
	"runtime"
	"sort"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

const passes = 3

// evaluation of one selector over every device on one thread. Seconds are those of the median pass.
type evaluation struct {
	Devices int     `json:"devices"`
	Matched int     `json:"matched"`
	Failed  int     `json:"failed"`
	Seconds float64 `json:"seconds"`
}

func evaluateAll(c *cluster, expression string) evaluation {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	slices, err := c.everySlice()
	if err != nil {
		panic(err)
	}
	compiled := cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}).GetOrCompile(expression)
	if compiled.Error != nil {
		panic(compiled.Error)
	}
	var found evaluation
	var times []float64
	for range passes {
		began := time.Now()
		found = pass(compiled, slices)
		times = append(times, time.Since(began).Seconds())
	}
	sort.Float64s(times)
	found.Seconds = times[passes/2]
	return found
}

func pass(compiled cel.CompilationResult, slices []*resourceapi.ResourceSlice) (found evaluation) {
	for _, slice := range slices {
		for _, device := range slice.Spec.Devices {
			found.Devices++
			matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
				Driver:                   slice.Spec.Driver,
				AllowMultipleAllocations: device.AllowMultipleAllocations,
				Attributes:               device.Attributes,
				Capacity:                 device.Capacity,
			})
			switch {
			case err != nil:
				found.Failed++
			case matches:
				found.Matched++
			}
		}
	}
	return found
}
