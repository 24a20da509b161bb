package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extender "k8s.io/kube-scheduler/extender/v1"
)

// extenderCase is a value of the extender protocol as kube-scheduler sends or reads it. The text is
// kept as text, because where a key is missing or null is what the test is about.
type extenderCase struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func extenderPod(name string) *v1.Pod {
	requests := v1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("2Gi")}
	container := v1.Container{Name: "c", Image: "example.test/c:1"}
	container.Resources.Requests = requests
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID("uid-" + name),
			Labels: map[string]string{"app": "memcached"},
		},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{container}},
	}
}

func extenderNodes(names ...string) *v1.NodeList {
	list := &v1.NodeList{}
	for _, name := range names {
		list.Items = append(list.Items, v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"<zone>": "a&b"}},
			Status:     v1.NodeStatus{Allocatable: v1.ResourceList{"cpu": resource.MustParse("4")}},
		})
	}
	return list
}

func extenderCases() []any {
	names, noNames := []string{"n1", "n2"}, []string{}
	noReasons := extender.FailedNodesMap{}
	pod := extenderPod("a")
	cases := []struct {
		name  string
		value any
	}{
		{"args names", extender.ExtenderArgs{Pod: pod, NodeNames: &names}},
		{"args no names", extender.ExtenderArgs{Pod: pod, NodeNames: &noNames}},
		{"args nodes", extender.ExtenderArgs{Pod: pod, Nodes: extenderNodes("n1", "n2")}},
		{"args no nodes", extender.ExtenderArgs{Pod: pod, Nodes: extenderNodes()}},
		{"args nothing", extender.ExtenderArgs{}},
		{"filter result names", extender.ExtenderFilterResult{
			NodeNames:                  &names,
			FailedNodes:                extender.FailedNodesMap{"n3": "too small"},
			FailedAndUnresolvableNodes: extender.FailedNodesMap{"n4": "of the wrong kind"},
		}},
		{"filter result nodes", extender.ExtenderFilterResult{
			Nodes: extenderNodes("n2"), FailedNodes: noReasons, FailedAndUnresolvableNodes: noReasons,
		}},
		{"filter result error", extender.ExtenderFilterResult{
			Error: "broken", FailedNodes: noReasons, FailedAndUnresolvableNodes: noReasons,
		}},
		{"priorities", extender.HostPriorityList{{Host: "n1", Score: 0}, {Host: "n2", Score: 10}}},
		{"preemption args whole", extender.ExtenderPreemptionArgs{
			Pod: pod,
			NodeNameToVictims: map[string]*extender.Victims{
				"n1": {Pods: []*v1.Pod{extenderPod("b"), extenderPod("c")}, NumPDBViolations: 1},
				"n2": {},
			},
		}},
		{"preemption args meta", extender.ExtenderPreemptionArgs{
			Pod: pod,
			NodeNameToMetaVictims: map[string]*extender.MetaVictims{
				"n1": {Pods: []*extender.MetaPod{{UID: "uid-b"}}, NumPDBViolations: 2},
				"n2": {},
				"n3": nil,
			},
		}},
		{"preemption result", extender.ExtenderPreemptionResult{
			NodeNameToMetaVictims: map[string]*extender.MetaVictims{
				"n1": {Pods: []*extender.MetaPod{{UID: "uid-b"}}, NumPDBViolations: 2},
			},
		}},
		{"binding args", extender.ExtenderBindingArgs{
			PodName: "a", PodNamespace: "shop", PodUID: "uid-a", Node: "n1",
		}},
		{"binding result", extender.ExtenderBindingResult{}},
		{"binding result error", extender.ExtenderBindingResult{Error: "no such node"}},
	}
	printed := make([]any, 0, len(cases))
	for _, c := range cases {
		text, err := json.Marshal(c.value)
		if err != nil {
			fail(err.Error())
		}
		printed = append(printed, extenderCase{c.name, string(text)})
	}
	return printed
}
