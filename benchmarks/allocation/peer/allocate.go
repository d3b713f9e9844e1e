package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// features are those of kube-scheduler with default feature gates.
var features = structured.Features{
	AdminAccess:            true,
	ConsumableCapacity:     true,
	DeviceBindingAndStatus: true,
	DeviceTaints:           true,
	PartitionableDevices:   true,
	PrioritizedList:        true,
}

// run is a list of pods and how to place them.
type run struct {
	// Pods is a file with one pod per line, see pod.
	Pods string `json:"pods"`
	// Workers look at nodes at the same time.
	Workers int `json:"workers"`
	// Find is how many nodes have to fit before the search for nodes ends; 0: as many as kube-scheduler wants.
	Find int `json:"find"`
	// Rotate starts the search behind the nodes which the previous pod looked at.
	Rotate bool `json:"rotate"`
	// Seconds after which no further pod is begun.
	Seconds float64 `json:"seconds"`
	// Timeout in seconds for each node, as kube-scheduler's filterTimeout.
	Timeout float64 `json:"timeout"`
	// Patience in seconds with each pod.
	Patience float64 `json:"patience"`
	// Lists are values of attributes, too, as with the feature gate DRAListTypeAttributes.
	Lists bool `json:"lists"`
}

// pod has its unallocated claims, and what is given back after the attempt to place it, see state.release.
type pod struct {
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
	Release int                          `json:"release"`
	// Floor is the number of holdings above which something is given back.
	Floor int `json:"floor"`
}

// answer is where one pod went: no node if it fits nowhere.
type answer struct {
	Node    string                         `json:"node,omitempty"`
	Results []resourceapi.AllocationResult `json:"results,omitempty"`
	Error   string                         `json:"error,omitempty"`
}

// summary of a run; times are seconds.
type summary struct {
	Seconds float64   `json:"seconds"`
	CPU     float64   `json:"cpu"`
	Calls   int64     `json:"calls"`
	Steps   int64     `json:"steps"`
	Each    []float64 `json:"each"`
	Answers []answer  `json:"answers"`
}

type scheduler struct {
	*cluster
	run
	state    *state
	celCache *cel.Cache
	start    int
	calls    atomic.Int64
	steps    int64
}

func allocateAll(c *cluster, r run) (*summary, error) {
	var pods []*pod
	err := eachLine(r.Pods, func(line []byte) error {
		p, err := decode[pod](line)
		pods = append(pods, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &scheduler{
		cluster:  c,
		run:      r,
		state:    newState(c.claims),
		celCache: cel.NewCache(10, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: r.Lists}),
	}
	result := &summary{}
	began, used := time.Now(), cpuTime()
	for _, p := range pods {
		if time.Since(began).Seconds() > r.Seconds {
			break
		}
		before := time.Now()
		found := s.place(p.Claims)
		result.Each = append(result.Each, time.Since(before).Seconds())
		result.Answers = append(result.Answers, found)
		if p.Release >= 0 && len(s.state.held) > p.Floor {
			s.state.release(p.Release)
		}
	}
	result.Seconds, result.CPU = time.Since(began).Seconds(), (cpuTime() - used).Seconds()
	result.Calls, result.Steps = s.calls.Load(), s.steps
	return result, nil
}

// place does for the claims of one pod what kube-scheduler does in PreFilter, Filter and Reserve.
func (s *scheduler) place(claims []*resourceapi.ResourceClaim) answer {
	limited, stop := context.WithTimeout(context.Background(), seconds(s.Patience))
	defer stop()
	ctx, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	slices, err := s.everySlice()
	if err != nil {
		return answer{Error: err.Error()}
	}
	enabled := features
	enabled.ListTypeAttributes = s.Lists
	allocator, err := structured.NewAllocator(ctx, enabled, s.state.snapshot(), s.classes, slices, s.celCache)
	if err != nil {
		return answer{Error: err.Error()}
	}
	index, results, err := s.search(ctx, cancel, allocator, claims)
	s.steps += steps(allocator)
	if err != nil {
		return answer{Error: err.Error()}
	}
	if results == nil {
		return answer{}
	}
	for _, result := range results {
		s.state.book(result.Devices.Results)
	}
	return answer{Node: s.nodes[index].Name, Results: results}
}

var errEnough = errors.New("enough nodes fit")

// search returns the first node in the cluster's order of those that were found to fit.
func (s *scheduler) search(
	ctx context.Context,
	cancel context.CancelCauseFunc,
	allocator structured.Allocator,
	claims []*resourceapi.ResourceClaim,
) (int, []resourceapi.AllocationResult, error) {
	count, want := len(s.nodes), s.nodesToFind()
	found := make([][]resourceapi.AllocationResult, count)
	var evaluated, fitting atomic.Int64
	check := func(piece int) {
		index := (s.start + piece) % count
		results, err := s.onNode(ctx, allocator, s.nodes[index], claims)
		if context.Cause(ctx) == errEnough {
			return
		}
		evaluated.Add(1)
		switch {
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
		case err != nil:
			cancel(fmt.Errorf("node %s: %w", s.nodes[index].Name, err))
		case results != nil:
			found[index] = results
			if fitting.Add(1) >= int64(want) {
				cancel(errEnough)
			}
		}
	}
	chunk := max(1, min(int(math.Sqrt(float64(count))), count/s.Workers+1))
	if s.Workers == 1 {
		chunk = 1
	}
	workqueue.ParallelizeUntil(ctx, s.Workers, count, check, workqueue.WithChunkSize(chunk))
	if s.Rotate {
		s.start = (s.start + int(evaluated.Load())) % count
	}
	if cause := context.Cause(ctx); cause != nil && cause != errEnough {
		return 0, nil, cause
	}
	for index, results := range found {
		if results != nil {
			return index, results, nil
		}
	}
	return 0, nil, nil
}

func (s *scheduler) onNode(
	ctx context.Context, allocator structured.Allocator, node *corev1.Node, claims []*resourceapi.ResourceClaim,
) ([]resourceapi.AllocationResult, error) {
	s.calls.Add(1)
	limited, cancel := context.WithTimeout(ctx, seconds(s.Timeout))
	defer cancel()
	return allocator.Allocate(limited, node, claims)
}

func seconds(count float64) time.Duration {
	return time.Duration(count * float64(time.Second))
}

// nodesToFind is kube-scheduler's default: half of the nodes and fewer in large clusters, at least 5 % and 100.
func (s *scheduler) nodesToFind() int {
	count := len(s.nodes)
	switch {
	case s.Find > 0:
		return s.Find
	case count < 100:
		return count
	}
	return max(100, count*max(5, 50-count/125)/100)
}

// steps are the calls of the allocator's recursive search; its type says so, but not the public interface.
func steps(allocator structured.Allocator) int64 {
	method := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !method.IsValid() {
		return 0
	}
	return method.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}
