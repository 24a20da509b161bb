package main

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// draws is how often the best node is asked for: ties are broken by chance.
const draws = 60

// eviction is what it would cost to clear a node.
type eviction struct {
	// Victims by namespace/name, the most important first.
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations,omitempty"`
}

// room is what DefaultPreemption makes of a pod that fits nowhere.
type room struct {
	// Candidates are all nodes that could be cleared; upstream stops looking when it has enough.
	Candidates map[string]eviction `json:"candidates,omitempty"`
	// Picks are the nodes of which one is chosen.
	Picks []string `json:"picks,omitempty"`
}

// roomFor is what it would cost to clear nodes for a pod of the first profile, nil if it must not be
// done. Unlike PostFilter it evicts nobody.
func (c *cluster) roomFor(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader,
) (*room, error) {
	plugin, err := c.preemption(ctx)
	if err != nil {
		return nil, nil //nolint:nilerr // The profile does without preemption.
	}
	status := statuses.Get(pod.Status.NominatedNodeName)
	if eligible, _ := plugin.PodEligibleToPreemptOthers(ctx, pod, status); !eligible {
		return nil, nil
	}
	return c.makeRoom(ctx, state, pod, statuses)
}

// makeRoom asks a DefaultPreemption of our own: the framework's does not say whom it would spare.
func (c *cluster) makeRoom(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader,
) (*room, error) {
	plugin, err := c.preemption(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := statuses.NodesForStatusCode(c.framework.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, err
	}
	budgets, err := plugin.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	// A node on which a filter breaks is no candidate; the others are, as PostFilter has it.
	candidates, _, _ := plugin.Evaluator.DryRunPreemption(
		ctx, state, pod, nodes, budgets, 0, int32(len(nodes)))
	found := &room{Candidates: map[string]eviction{}}
	for _, candidate := range candidates {
		cost := eviction{Violations: candidate.Victims().NumPDBViolations}
		for _, victim := range candidate.Victims().Pods {
			cost.Victims = append(cost.Victims, victim.Namespace+"/"+victim.Name)
		}
		found.Candidates[candidate.Name()] = cost
	}
	if len(candidates) == 0 {
		return found, nil
	}
	picks := sets.New[string]()
	for range draws {
		picks.Insert(plugin.Evaluator.SelectCandidate(ctx, candidates).Name())
	}
	found.Picks = sets.List(picks)
	return found, nil
}

func (c *cluster) preemption(ctx context.Context) (*defaultpreemption.DefaultPreemption, error) {
	for _, given := range c.configuration.Profiles[0].PluginConfig {
		if args, ok := given.Args.(*config.DefaultPreemptionArgs); ok {
			gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
			return defaultpreemption.New(ctx, args, c.framework, gates)
		}
	}
	return nil, errors.New("the profile has no arguments of DefaultPreemption")
}
