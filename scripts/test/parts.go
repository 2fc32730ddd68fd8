package main

import "slices"

type part struct {
	name      string
	flags     []string
	longFlags []string // added for -long; the last value of a flag applies
	packages  []string // patterns, in the order of their start
	except    []string
	services  bool // starts Firestore and a Kubernetes API
	longOnly  bool
}

func parts() []part {
	return []part{
		{
			name:      "unit",
			services:  true,
			flags:     []string{"-vet=off", "-timeout=15m", "-p=4"}, // most of them wait
			longFlags: []string{"-timeout=60m", "-p=2"},
			packages:  []string{"./functions/deploys", "./functions/wiring", "./functions/builds", "./..."},
			except:    slices.Concat(concurrent(), []string{"./tests/...", "./emulators/stack/..."}),
		},
		{
			name:      "race",
			services:  true,
			flags:     []string{"-race", "-vet=off", "-timeout=15m", "-p=4"},
			longFlags: []string{"-timeout=60m", "-p=2"},
			packages:  concurrent(),
		},
		{ // the tests are clients; the functions that they call have the race detector
			name:      "e2e",
			flags:     []string{"-vet=off", "-count=1", "-timeout=30m", "-p=2", "-parallel=6"}, // most of them wait
			longFlags: []string{"-timeout=90m", "-parallel=2"},
			packages:  []string{"./tests/chaos", "./tests/attack", "./tests/console", "./emulators/stack/...", "./tests", "./tests/..."},
			except:    []string{"./tests/replicas"},
		},
		{ // measures rates, so nothing runs at the same time
			name:      "rates",
			flags:     []string{"-vet=off", "-count=1", "-timeout=30m"},
			longFlags: []string{"-timeout=90m"},
			packages:  []string{"./tests/replicas"},
		},
	}
}

// concurrent returns the packages whose unit tests use several goroutines. Reconcilers are not
// listed, because the end-to-end tests run them with the race detector.
func concurrent() []string {
	return []string{
		"./functions/checker", "./functions/checker/internal/bucket", "./functions/checker/internal/canary", "./functions/checker/internal/denials",
		"./functions/console", "./functions/console/internal/view", "./functions/keys", "./functions/rollup", "./functions/session", "./functions/standin", "./functions/usage",
		"./functions/webhook", "./functions/webhook/internal/issuers",
		"./shared/funcmain", "./shared/httpapi", "./shared/identity", "./shared/notify", "./shared/reconcile",
		"./shared/servercert", "./shared/span", "./shared/store", "./shared/reqctx",
		"./emulators/internal/child", "./emulators/internal/orphans", "./emulators/internal/progress",
	}
}

// selected returns the named parts, or all parts without names. unknown is the first unknown
// name.
func selected(all []part, names []string, long bool) (run []part, unknown string) {
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p part) bool { return p.name == name }) {
			return nil, name
		}
	}
	for _, p := range all {
		if slices.Contains(names, p.name) || len(names) == 0 && (long || !p.longOnly) {
			run = append(run, p)
		}
	}
	return run, ""
}

// arguments enables the race detector if long is true.
func (p part) arguments(packages []string, long bool) []string {
	args := append([]string{"test", "-json"}, p.flags...)
	if long {
		args = append(append(args, "-race"), p.longFlags...)
	}
	return append(args, packages...)
}
