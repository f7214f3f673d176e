package main

import (
	"maps"
	"testing"
)

func TestSymbolsAreAddedUpByModule(t *testing.T) {
	const symbols = `
  4f2020        100 T k8s.io/client-go/rest.HTTPClientFor
  4f2020         10 t k8s.io/client-go/rest.(*Config).String
  4f2020          5 T k8s.io/client-go/tools/clientcmd/api.glob..func1
  4f2020         20 T gopkg.in/yaml%2ev3.Marshal
  4f2020         30 T net/http.(*Client).do
  4f2020         40 T slices.Sort[k8s.io/client-go/rest.Config]
  4f2020         50 T main.main
  4f2020         60 r go:func.*
  4f2020       7000 d net/http.zeros
                    U malloc
`
	const packages = `net/http std
slices std
gopkg.in/yaml.v3 gopkg.in/yaml.v3
k8s.io/client-go/rest k8s.io/client-go
k8s.io/client-go/tools/clientcmd/api k8s.io/client-go
out_k8saudit out_k8saudit
`
	want := map[string]int{"k8s.io/client-go": 115, "gopkg.in/yaml.v3": 20, "std": 70, "out_k8saudit": 50}
	if got := moduleSizes(symbols, packages); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
