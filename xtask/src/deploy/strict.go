// Decodes manifests with the types of Kubernetes' own API. An unknown or a repeated key is an error, as is a wrong type.
package main

import (
	"fmt"
	"os"
	"strings"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	failed := false
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			kind, err := check([]byte(document))
			if err != nil {
				failed = true
				fmt.Printf("%s: %s: %v\n", path, kind, err)
			} else {
				fmt.Printf("%s: %s is valid\n", path, kind)
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(document []byte) (string, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return "document", err
	}
	name := head.APIVersion + " " + head.Kind
	types := map[string]any{
		"v1 PersistentVolumeClaim": &core.PersistentVolumeClaim{},
		"v1 Service":               &core.Service{},
		"apps/v1 StatefulSet":      &apps.StatefulSet{},
		"batch/v1 Job":             &batch.Job{},
	}
	object, known := types[name]
	if !known {
		return name, fmt.Errorf("the kind is unknown here")
	}
	return name, yaml.UnmarshalStrict(document, object)
}
