package main

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// devices is DynamicResources' part in a decision.
type devices struct {
	PreEnqueue verdict `json:"preenqueue"`
	// Nodes that pass all filters, with the claims that Reserve allocates there. A claim has its
	// name; that of extended resources also has its requests.
	Nodes map[string][]allocated `json:"nodes,omitempty"`
	// PostFilter of a pod that fits nowhere, and the claim that it deallocates or deletes.
	PostFilter *verdict `json:"postfilter,omitempty"`
	Given      string   `json:"given,omitempty"`
	// Error that ended the cycle.
	Error string `json:"error,omitempty"`
}

type allocated struct {
	Claim      string                       `json:"claim"`
	Requests   []resourcev1.DeviceRequest   `json:"requests,omitempty"`
	Allocation *resourcev1.AllocationResult `json:"allocation,omitempty"`
	Error      *verdict                     `json:"error,omitempty"`
}

func init() {
	// Nothing of a claim is stored here: what would be written has been written.
	client.PrependReactor("*", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if update, ok := action.(clienttesting.UpdateAction); ok {
			return true, update.GetObject(), nil
		}
		return true, &resourcev1.ResourceClaim{}, nil
	})
}

// deviceScheduler is a DynamicResources of our own, which remembers what it reserves: the framework's
// does not say. Both share the claims in flight and, through the cycle's state, everything else.
type deviceScheduler struct {
	*dynamicresources.DynamicResources
	claims *rememberingTracker
}

// handle is the framework's, with claims that are remembered.
type handle struct {
	framework.Framework
	devices *manager
}

func (h *handle) SharedDRAManager() fwk.SharedDRAManager { return h.devices }

type manager struct {
	fwk.SharedDRAManager
	claims *rememberingTracker
}

func (m *manager) ResourceClaims() fwk.ResourceClaimTracker { return m.claims }

type rememberingTracker struct {
	fwk.ResourceClaimTracker
	reserved []*resourcev1.ResourceClaim
}

func (t *rememberingTracker) SignalClaimPendingAllocation(uid types.UID, claim *resourcev1.ResourceClaim) error {
	t.reserved = append(t.reserved, claim)
	return t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
}

func (c *cluster) newDeviceScheduler(ctx context.Context, profile framework.Framework) (*deviceScheduler, error) {
	shared := profile.SharedDRAManager()
	claims := &rememberingTracker{ResourceClaimTracker: shared.ResourceClaims()}
	for _, pattern := range c.configuration.Profiles {
		if pattern.SchedulerName != profile.ProfileName() {
			continue
		}
		for _, given := range pattern.PluginConfig {
			if given.Name == dynamicresources.Name {
				made, err := frameworkplugins.NewInTreeRegistry()[dynamicresources.Name](
					ctx, given.Args, &handle{profile, &manager{shared, claims}})
				if err != nil {
					return nil, err
				}
				return &deviceScheduler{made.(*dynamicresources.DynamicResources), claims}, nil
			}
		}
	}
	return nil, fmt.Errorf("profile %s has no arguments of %s", profile.ProfileName(), dynamicresources.Name)
}

// on are the claims that would be allocated on a node that passed the filters in this state.
func (d *deviceScheduler) on(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) []allocated {
	d.claims.reserved = nil
	status := d.Reserve(ctx, state, pod, node)
	defer d.Unreserve(ctx, state, pod, node)
	if !status.IsSuccess() {
		said := verdictOf(status)
		return []allocated{{Error: &said}}
	}
	found := []allocated{}
	for _, claim := range d.claims.reserved {
		one := allocated{Claim: claim.Name, Allocation: claim.Status.Allocation.DeepCopy()}
		if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "" {
			one.Requests = claim.Spec.Devices.Requests
		}
		for place := range one.Allocation.Devices.Results {
			if id := &one.Allocation.Devices.Results[place].ShareID; *id != nil {
				// It is drawn by lot.
				same := types.UID("share")
				*id = &same
			}
		}
		found = append(found, one)
	}
	return found
}

// release asks PostFilter of a pod that fits nowhere, without harm to the claim.
func (d *deviceScheduler) release(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader,
) (verdict, string) {
	client.ClearActions()
	_, status := d.PostFilter(ctx, state, pod, statuses)
	given := ""
	for _, action := range client.Actions() {
		switch action := action.(type) {
		case clienttesting.UpdateAction:
			given = action.GetObject().(*resourcev1.ResourceClaim).Name
		case clienttesting.DeleteAction:
			given = action.GetName()
		}
	}
	client.ClearActions()
	return verdictOf(status), given
}

// devicesFor says what becomes of a pod's claims on every feasible node, or why on none.
func (c *cluster) devicesFor(ctx context.Context, profile framework.Framework, pod *v1.Pod) (*devices, error) {
	plugin, err := c.newDeviceScheduler(ctx, profile)
	if err != nil {
		return nil, err
	}
	said := &devices{PreEnqueue: verdictOf(plugin.PreEnqueue(ctx, pod))}
	state := framework.NewCycleState()
	statuses := framework.NewDefaultNodeToStatus()
	narrowed, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if status.IsRejected() {
		statuses.SetAbsentNodesStatus(status)
	} else if !status.IsSuccess() {
		said.Error = status.Message()
		return said, nil
	}
	var feasible []string
	for _, node := range c.nodes {
		if status.IsRejected() || !narrowed.AllNodes() && !narrowed.NodeNames.Has(node.Node().Name) {
			continue
		}
		found := profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		if !found.IsSuccess() && !found.IsRejected() {
			said.Error = found.Message()
			return said, nil
		}
		if found.IsSuccess() {
			feasible = append(feasible, node.Node().Name)
		} else {
			statuses.Set(node.Node().Name, found)
		}
	}
	if len(feasible) > 0 {
		said.Nodes = map[string][]allocated{}
		for _, node := range feasible {
			said.Nodes[node] = plugin.on(ctx, state, pod, node)
		}
	} else if len(c.nodes) > 0 {
		answer, given := plugin.release(ctx, state, pod, statuses)
		said.PostFilter, said.Given = &answer, given
	}
	return said, nil
}

// held is a pod that was reserved and is not bound yet.
type held struct {
	plugin *deviceScheduler
	state  fwk.CycleState
	pod    *v1.Pod
	node   string
}

// hold reserves devices for a pod on a node that passes the filters, until letGo.
func (s *stream) hold(pod *v1.Pod, node string) error {
	profile := s.cluster.scheduler.Profiles[pod.Spec.SchedulerName]
	plugin, err := s.cluster.newDeviceScheduler(s.ctx, profile)
	if err != nil {
		return err
	}
	state := framework.NewCycleState()
	if _, status, _ := profile.RunPreFilterPlugins(s.ctx, state, pod); !status.IsSuccess() {
		return status.AsError()
	}
	place := slices.IndexFunc(s.cluster.nodes, func(one fwk.NodeInfo) bool { return one.Node().Name == node })
	if place < 0 {
		return fmt.Errorf("there is no node %q", node)
	}
	if status := profile.RunFilterPlugins(s.ctx, state, pod, s.cluster.nodes[place]); !status.IsSuccess() {
		return status.AsError()
	}
	if status := plugin.Reserve(s.ctx, state, pod, node); !status.IsSuccess() {
		return status.AsError()
	}
	s.held = append(s.held, held{plugin, state, pod, node})
	return nil
}

// letGo ends what hold began, for the pods of these UIDs.
func (s *stream) letGo(uids []string) {
	s.held = slices.DeleteFunc(s.held, func(one held) bool {
		isNamed := slices.Contains(uids, string(one.pod.UID))
		if isNamed {
			one.plugin.Unreserve(s.ctx, one.state, one.pod, one.node)
		}
		return isNamed
	})
}
