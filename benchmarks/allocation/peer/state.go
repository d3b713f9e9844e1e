package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// state is what is in use, and by whom, so that it can be given back.
type state struct {
	allocated structured.AllocatedState
	held      [][]resourceapi.DeviceRequestAllocationResult
}

func newState(claims []*resourceapi.ResourceClaim) *state {
	s := &state{allocated: structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}}
	for _, claim := range claims {
		s.book(claim.Status.Allocation.Devices.Results)
	}
	return s
}

// snapshot is the copy which kube-scheduler makes for each pod.
func (s *state) snapshot() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         s.allocated.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: s.allocated.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       s.allocated.AggregatedCapacity.Clone(),
	}
}

func (s *state) book(results []resourceapi.DeviceRequestAllocationResult) {
	s.held = append(s.held, results)
	for _, result := range results {
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		switch {
		case result.AdminAccess != nil && *result.AdminAccess:
		case result.ShareID != nil:
			s.allocated.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			s.allocated.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
		default:
			s.allocated.AllocatedDevices.Insert(id)
		}
	}
}

// release gives back what the draw hits: the last holding takes its place in the list.
func (s *state) release(draw int) {
	index, last := draw%len(s.held), len(s.held)-1
	results := s.held[index]
	s.held[index] = s.held[last]
	s.held = s.held[:last]
	for _, result := range results {
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		switch {
		case result.AdminAccess != nil && *result.AdminAccess:
		case result.ShareID != nil:
			s.allocated.AllocatedSharedDeviceIDs.Delete(structured.MakeSharedDeviceID(id, result.ShareID))
			s.allocated.AggregatedCapacity.Remove(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
		default:
			s.allocated.AllocatedDevices.Delete(id)
		}
	}
}
