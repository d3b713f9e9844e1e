package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// cluster is what an informer would hold, with the nodes in the order of the file.
type cluster struct {
	nodes   []*corev1.Node
	classes classes
	slices  resourcelisters.ResourceSliceLister
	claims  []*resourceapi.ResourceClaim
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, found := c[name]; found {
		return class, nil
	}
	return nil, fmt.Errorf("no device class %q", name)
}

func readCluster(path string) (*cluster, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	c := &cluster{classes: classes{}, slices: resourcelisters.NewResourceSliceLister(indexer)}
	err := eachLine(path, func(line []byte) error {
		kind := kindOf(line)
		switch kind {
		case "Node":
			node, err := decode[corev1.Node](line)
			c.nodes = append(c.nodes, node)
			return err
		case "DeviceClass":
			class, err := decode[resourceapi.DeviceClass](line)
			c.classes[class.Name] = class
			return err
		case "ResourceSlice":
			slice, err := decode[resourceapi.ResourceSlice](line)
			if err != nil {
				return err
			}
			return indexer.Add(slice)
		case "ResourceClaim":
			claim, err := decode[resourceapi.ResourceClaim](line)
			c.claims = append(c.claims, claim)
			return err
		}
		return fmt.Errorf("unknown kind %q", kind)
	})
	return c, err
}

func (c *cluster) everySlice() ([]*resourceapi.ResourceSlice, error) {
	return c.slices.List(labels.Everything())
}

// kindOf looks at the start of the line only, which begins with {"kind": "..."
func kindOf(line []byte) string {
	parts := bytes.SplitN(line, []byte{'"'}, 5)
	if len(parts) < 5 || string(parts[1]) != "kind" {
		return ""
	}
	return string(parts[3])
}

func decode[T any](line []byte) (*T, error) {
	object := new(T)
	return object, json.Unmarshal(line, object)
}

func eachLine(path string, do func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, 1<<20)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			if failed := do(line); failed != nil {
				return fmt.Errorf("%s:%d: %w", path, number, failed)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
