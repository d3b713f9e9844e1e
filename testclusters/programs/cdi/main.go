// Command cdi prints what the CDI library of container runtimes gives to containers. It reads a JSON list of cases from
// its standard input, each with the folders of specs and the devices of one container, and prints a list of answers.
package main

import (
	"encoding/json"
	"log"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

type question struct {
	Folders []string `json:"folders"`
	Devices []string `json:"devices"`
	// UID is the user of the container.
	UID uint32 `json:"uid"`
}

type answer struct {
	// Error is why the container gets nothing; "" if it gets what the rest says.
	Error string `json:"error"`
	// Specs are the faults of spec files, by path.
	Specs     map[string]string `json:"specs"`
	Container oci.Spec          `json:"container"`
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		log.Fatal(err)
	}
	answers := make([]answer, 0, len(questions))
	for _, each := range questions {
		answers = append(answers, ask(each))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

func ask(asked question) answer {
	found := answer{Specs: map[string]string{}}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(asked.Folders...), cdi.WithAutoRefresh(false))
	if err != nil {
		log.Fatal(err)
	}
	for path, faults := range cache.GetErrors() {
		found.Specs[path] = faults[0].Error()
	}
	found.Container.Process = &oci.Process{User: oci.User{UID: asked.UID}}
	if _, err := cache.InjectDevices(&found.Container, asked.Devices...); err != nil {
		found.Error = err.Error()
	}
	return found
}
