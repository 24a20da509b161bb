// Copied into upstream's package dynamicresources by python -m tools.device_tables, as a test file.
package dynamicresources

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// step is a call of the plugin, or a change by others, and what there is after it.
type step struct {
	Step     string          `json:"step"`
	Code     string          `json:"code,omitempty"`
	Reasons  []string        `json:"reasons,omitempty"`
	Claims   []metav1.Object `json:"claims,omitempty"`
	InFlight []metav1.Object `json:"inFlight,omitempty"`
	Pod      any             `json:"pod,omitempty"`
}

var (
	lock    sync.Mutex
	current map[string]any
	steps   []json.RawMessage
)

func flush() {
	if current == nil {
		return
	}
	current["steps"] = steps
	write(current)
	current, steps = nil, nil
}

func write(value any) {
	file, err := os.OpenFile(os.Getenv("DUMP"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	file.Write(append(line, '\n'))
}

func recordCase(tCtx ktesting.TContext, name string, tc *testPluginCase, nodes []*v1.Node, feats feature.Features) {
	lock.Lock()
	defer lock.Unlock()
	flush()
	var objs []any
	for _, obj := range tc.objs {
		objs = append(objs, map[string]any{"kind": strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1."), "object": obj})
	}
	current = map[string]any{
		"table": "plugin", "name": name, "nodes": nodes, "pod": tc.pod, "claims": tc.claims, "classes": tc.classes,
		"objects": objs, "inFlight": tc.inFlightClaims, "features": feats, "args": tc.args,
		"podGroups": len(tc.podGroups), "cancelFilter": tc.cancelFilter, "failPatch": tc.failPatch,
		"reactors": len(tc.reactors), "scores": tc.want.scoreResult, "normalized": tc.want.normalizeScoreResult,
		"emulatesOlder": tc.disableDRAAdminAccess, "now": time.Now().UTC().Format(time.RFC3339),
	}
	tCtx.Cleanup(func() { lock.Lock(); defer lock.Unlock(); flush() })
}

// add keeps the step as it is now: claims are changed later on.
func add(one step) {
	lock.Lock()
	defer lock.Unlock()
	text, err := json.Marshal(one)
	if err != nil {
		panic(err)
	}
	steps = append(steps, text)
}

func recordPrepared(claim *resourceapi.ResourceClaim) {
	add(step{Step: "prepare", Claims: []metav1.Object{claim}})
}

func recordStep(tCtx ktesting.TContext, tc *testContext, status *fwk.Status) {
	name := tCtx.Name()
	parts := strings.SplitN(name, "/", 3)
	one := step{Step: parts[len(parts)-1], Code: status.Code().String(),
		Claims: tc.listAll(tCtx), InFlight: tc.listInFlightClaims()}
	if status != nil {
		one.Reasons = status.Reasons()
	}
	if pods, err := tc.client.CoreV1().Pods("").List(tCtx, metav1.ListOptions{}); err == nil && len(pods.Items) > 0 {
		one.Pod = pods.Items
	}
	add(one)
}

func recordHint(table, name string, pod, claims, oldObj, newObj any, hint fwk.QueueingHint, err error) {
	lock.Lock()
	defer lock.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	write(map[string]any{"table": "hints of " + table, "name": name, "pod": pod, "claims": claims,
		"old": oldObj, "new": newObj, "hint": hint.String(), "error": text})
}
