package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// checkout has one of everything that is counted, beside what looks like it.
func checkout() fstest.MapFS {
	return fstest.MapFS{
		"functions/keys/keys.go": {Data: []byte(`package keys

import (
	"context"
	"net/http"
)

import "errors"

// Store keeps keys; *store.Store implements it.
type Store interface{ Keys() error }

type (
	// Clock tells the time.
	Clock interface{ Now() }
	Key   struct{}
)

func (k *Key) list(w http.ResponseWriter, r *http.Request) error {
	if err := k.read(); err != nil {
		return err
	}
	return nil
}

func (k *Key) show(ctx context.Context, s Scope, id string) (Key, error) { return Key{}, nil }

func (k *Key) read() error {
	err := errors.New("unreadable")
	if err != nil {
		k.log(err)
		return err
	}
	if err != nil {
		return nil
	} else if k == nil {
		return err
	}
	return nil
}

func (k *Key) served(w http.ResponseWriter, r *http.Request) {}
`)},
		"functions/console/page.go":    {Data: []byte("package console\n\nfunc page(w http.ResponseWriter, r *http.Request) error { return nil }\n\ntype Pages interface{}\n")},
		"functions/keys/keys_test.go":  {Data: []byte("package keys\n")},
		"tests/stacktest/stacktest.go": {Data: []byte("package stacktest\n\ntype Stack interface{}\n")},
		"infra/keys.yaml":              {Data: []byte("a: 1\nb: 2\n")},
		".local/tool/tool.go":          {Data: []byte("no Go at all")},
		"README.md":                    {Data: []byte("# Sluice\n")},
	}
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	m, err := measure(checkout())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := m.printRooms(&out); err != nil {
		t.Fatal(err)
	}
	if err := m.printTotals(&out); err != nil {
		t.Fatal(err)
	}
	const want = `  47  lines  2  files  functions
  42  lines  1  files    keys
   5  lines  1  files    console
   3  lines  1  files  tests

50 lines in 3 files: median 5, 90th percentile 42, 2 files below 40, 3 below 60
5 lines of imports, 3 of error returns
3 interfaces in functions, of which 1 say who implements them
2 handlers of the API, of 3.5 lines on average
2 lines of manifests
`
	if out.String() != want {
		t.Errorf("it says\n%s\nnot\n%s", out.String(), want)
	}
}

func TestNothingToMeasure(t *testing.T) {
	t.Parallel()
	if _, err := measure(fstest.MapFS{"README.md": {}}); err == nil {
		t.Error("a folder without Go was measured")
	}
	if err := run(&strings.Builder{}, []string{"a", "b"}); err == nil {
		t.Error("two folders were taken")
	}
}
