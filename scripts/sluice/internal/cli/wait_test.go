package cli

import (
	"net/http"
	"strings"
	"testing"
)

const (
	envPath = "/projects/shop/environments/prod"
	hello   = envPath + "/apps/hello"
)

func TestWait(t *testing.T) {
	t.Parallel()
	away := answer{http.StatusBadGateway, ""}
	superseded4 := strings.Replace(revision4, "rolling_out", "superseded", 1)
	newApp := strings.Replace(appJSON, `"revision":3`, `"revision":1`, 1)
	unbuilt := strings.Replace(appJSON, `"revision":3`, `"revision":0`, 1)
	tests := []struct {
		name    string
		args    string
		answers map[string][]answer
		exit    int
		stderr  string
	}{
		{
			"live", "app update hello --image i:2 --wait",
			map[string][]answer{"GET " + hello + "/deployments/4": ok(revision4, live4)},
			0,
			"revision 4 of hello: rolling_out\nrevision 4 of hello: live\n",
		},
		{
			"failed", "app update hello --image i:2 --wait",
			map[string][]answer{"GET " + hello + "/deployments/4": ok(revision4, failed4)},
			1,
			"revision 4 of hello: rolling_out\nerror: Revision 4 of hello failed: not ready within 2m0s: ImagePullBackOff (deploy_failed)\n",
		},
		{
			"failed immediately", "app update hello --image i:2 --wait",
			map[string][]answer{"POST " + hello + "/deployments": ok(failed4)},
			1,
			"error: Revision 4 of hello failed: not ready within 2m0s: ImagePullBackOff (deploy_failed)\n",
		},
		{
			"superseded", "app rollback hello --yes --wait",
			map[string][]answer{"POST " + hello + "/rollback": ok(revision4), "GET " + hello + "/deployments/4": ok(superseded4)},
			1,
			"revision 4 of hello: rolling_out\nerror: Revision 4 of hello was superseded by another deployment. (superseded)\n",
		},
		{
			"the server is unavailable for a while", "app promote hello --from staging --wait",
			map[string][]answer{"GET " + hello + "/deployments/4": {away, away, {200, live4}}},
			0,
			"revision 4 of hello: rolling_out\nrevision 4 of hello: live\n",
		},
		{
			"the app was deleted", "app update hello --image i:2 --wait",
			map[string][]answer{"GET " + hello + "/deployments/4": {{404, `{"code":"not_found","message":"Gone."}`}}},
			4,
			"revision 4 of hello: rolling_out\nerror: Gone. (not_found)\n",
		},
		{
			"timeout", "app update hello --image i:2 --wait --wait-timeout 50ms",
			map[string][]answer{"GET " + hello + "/deployments/4": ok(revision4)},
			1,
			"revision 4 of hello: rolling_out\nerror: Timed out after 50ms: revision 4 of hello is still rolling_out. (timeout)\n",
		},
		{
			"a new app", "app create hello --image i:1 --wait",
			map[string][]answer{"POST " + envPath + "/apps": ok(newApp), "GET " + hello + "/deployments/1": ok(strings.Replace(live4, ":4", ":1", 1))},
			0,
			"revision 1 of hello: rolling_out\nrevision 1 of hello: live\n",
		},
		{
			"a new app that fails", "app create hello --image i:1 --wait",
			map[string][]answer{"POST " + envPath + "/apps": ok(newApp), "GET " + hello + "/deployments/1": ok(strings.Replace(failed4, ":4", ":1", 1))},
			1,
			"revision 1 of hello: rolling_out\nerror: Revision 1 of hello failed: not ready within 2m0s: ImagePullBackOff (deploy_failed)\n",
		},
		{
			"a new git app", "app create hello --repository https://git.example.com/shop/hello --wait",
			map[string][]answer{
				"POST " + envPath + "/apps": ok(unbuilt), "GET " + hello + "/builds": ok(list(runningJSON)), "GET " + hello + "/builds/8": ok(builtJSON),
				"GET " + hello + "/deployments/13": ok(strings.Replace(live4, ":4", ":13", 1)),
			},
			0,
			"build 8 of hello: running\nbuild 8 of hello: succeeded\nrevision 13 of hello: rolling_out\nrevision 13 of hello: live\n",
		},
		{
			"a new git app that cannot be built", "app create hello --repository https://git.example.com/shop/hello --wait",
			map[string][]answer{
				"POST " + envPath + "/apps": ok(unbuilt), "GET " + hello + "/builds": ok(list(runningJSON)),
				"GET " + hello + "/builds/8": ok(strings.Replace(builtJSON, `"succeeded"`, `"failed","message":"no Dockerfile"`, 1)),
			},
			1,
			"build 8 of hello: running\nerror: Build 8 of hello failed: no Dockerfile (build_failed)\n",
		},
		{
			"engaged", "app gate on hello --wait",
			map[string][]answer{"GET " + hello: ok(pendingJSON, engagedJSON)},
			0,
			"the gate of hello: pending: the probe was answered 200\nthe gate of hello: engaged\n",
		},
		{
			"engaged while the server is unavailable", "app gate on hello --wait",
			map[string][]answer{"GET " + hello: {away, {200, engagedJSON}}},
			0,
			"the gate of hello: pending: the probe was answered 200\nthe gate of hello: engaged\n",
		},
		{
			"gate timeout", "app gate on hello --wait --wait-timeout 50ms",
			map[string][]answer{"GET " + hello: ok(pendingJSON)},
			1,
			"the gate of hello: pending: the probe was answered 200\n" +
				"error: Timed out after 50ms: the gate of hello is still pending: the probe was answered 200. (timeout)\n",
		},
		{
			"switched back in the meantime", "app gate on hello --wait",
			map[string][]answer{"GET " + hello: ok(appJSON)},
			1,
			"the gate of hello: pending: the probe was answered 200\nerror: Another user switched the gate of hello in the meantime. (superseded)\n",
		},
		{
			"off", "app gate off hello --yes --wait",
			map[string][]answer{"PATCH " + hello: ok(strings.Replace(pendingJSON, "true", "false", 1)), "GET " + hello: ok(appJSON)},
			0,
			"the gate of hello: pending: the probe was answered 200\nthe gate of hello: ungated\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, shopWith(tt.answers))
			r := newPerson(t, f.URL).runs(strings.Fields(tt.args)...)
			if r.exit != tt.exit || r.err != tt.stderr {
				t.Errorf("got %swant exit %d and\n%s", r, tt.exit, tt.stderr)
			}
			if (r.out != "") != (tt.exit == 0) {
				t.Errorf("standard output: got %q", r.out)
			}
		})
	}
}
