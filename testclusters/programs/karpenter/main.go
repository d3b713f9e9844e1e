// Karpenter with its KWOK provider, which creates Node objects instead of machines, and with slices that a new node of
// each instance type will have. The provider knows none, and its file of instance types has no field for them.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"unique"

	resourcev1 "k8s.io/api/resource/v1"
	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	var err error
	if len(os.Args) == 2 && os.Args[1] == "crds" {
		err = printDefinitions()
	} else {
		err = provision()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// printDefinitions prints the CustomResourceDefinitions that Karpenter needs, one JSON document each.
func printDefinitions() error {
	encoder := json.NewEncoder(os.Stdout)
	for _, definition := range append(apis.CRDs, kwokapis.CRDs...) {
		if err := encoder.Encode(definition); err != nil {
			return err
		}
	}
	return nil
}

// provision runs Karpenter. The environment variable SLICE_TEMPLATES names a file with the ResourceSlices of a node by
// instance type.
func provision() error {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		return err
	}
	if err := addSlices(types, os.Getenv("SLICE_TEMPLATES")); err != nil {
		return err
	}
	provider := kwok.NewCloudProvider(ctx, op.GetClient(), types)
	decorated := overlay.Decorate(provider, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), decorated)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, decorated, provider, cluster, op.InstanceTypeStore,
	)...).Start(ctx)
	return nil
}

func addSlices(types []*cloudprovider.InstanceType, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var slices map[string][]resourcev1.ResourceSlice
	if err := json.Unmarshal(text, &slices); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, instanceType := range types {
		for _, slice := range slices[instanceType.Name] {
			instanceType.DynamicResources.ResourceSliceTemplates = append(
				instanceType.DynamicResources.ResourceSliceTemplates, template(slice))
		}
	}
	return nil
}

func template(slice resourcev1.ResourceSlice) *cloudprovider.ResourceSliceTemplate {
	result := &cloudprovider.ResourceSliceTemplate{
		Driver:         unique.Make(slice.Spec.Driver),
		Pool:           cloudprovider.ResourcePool{Name: unique.Make(slice.Spec.Pool.Name)},
		SharedCounters: slice.Spec.SharedCounters,
	}
	for _, device := range slice.Spec.Devices {
		result.Devices = append(result.Devices, cloudprovider.Device{
			Name:                     unique.Make(device.Name),
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
			AllowMultipleAllocations: device.AllowMultipleAllocations != nil && *device.AllowMultipleAllocations,
			ConsumesCounters:         device.ConsumesCounters,
		})
	}
	return result
}
