package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// excluded is said of nodes that a PreFilter result leaves out.
const excluded = "ExcludedByPreFilter"

// line is what `stowplan decide` reads: with Objects a question by itself, otherwise a step of the
// stream, which goes on until a line is Fresh.
type line struct {
	ID      json.RawMessage   `json:"id"`
	Config  json.RawMessage   `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Apply   []json.RawMessage `json:"apply"`
	Delete  []reference       `json:"delete"`
	Pod     *v1.Pod           `json:"pod"`
	Fresh   bool              `json:"fresh"`
	// Choose: let the scheduler choose too.
	Choose bool `json:"choose"`
	// Devices: say what DynamicResources allocates.
	Devices bool `json:"devices"`
	// Hold the devices of the pod on this node, as a pod that is being bound does.
	Hold string `json:"hold"`
	// Release the devices of these pods, by UID, before anything else.
	Release []string `json:"release"`
}

type reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// decision is what `stowplan decide` writes.
type decision struct {
	ID        json.RawMessage             `json:"id"`
	Error     string                      `json:"error,omitempty"`
	PreFilter *finding                    `json:"prefilter,omitempty"`
	Nodes     map[string]finding          `json:"nodes,omitzero"`
	Scores    map[string]map[string]int64 `json:"scores,omitempty"`
	Totals    map[string]int64            `json:"totals,omitempty"`
	Best      []string                    `json:"best,omitempty"`
	// Choice is what the scheduler's own search came to, which goes on where the last one ended.
	Choice  *outcome `json:"choice,omitempty"`
	Devices *devices `json:"devices,omitempty"`
	// Order in which a scheduler would have looked at the nodes, if it was not this one here.
	Order []string `json:"order,omitempty"`
}

// finding is a verdict with the name of the plugin that came to it.
type finding struct {
	verdict
	Plugin string `json:"plugin,omitempty"`
}

func findingOf(status *fwk.Status) finding {
	found := finding{verdict: verdictOf(status)}
	if !status.IsSuccess() {
		found.Plugin = status.Plugin()
	}
	return found
}

// stream is the cluster that lines without objects share.
type stream struct {
	cluster *cluster
	ctx     context.Context
	end     context.CancelFunc
	held    []held
}

func (s *stream) start(config json.RawMessage) error {
	if s.end != nil {
		s.end()
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.held = nil
	var err error
	s.cluster, err = newCluster(s.ctx, config)
	return err
}

// step changes the stream's cluster and, where there is a pod, judges it.
func (s *stream) step(asked *line) (*decision, error) {
	if asked.Fresh || s.cluster == nil {
		if err := s.start(asked.Config); err != nil {
			return nil, err
		}
	} else if asked.Config != nil {
		return nil, fmt.Errorf("a stream keeps the configuration of its first line")
	}
	s.letGo(asked.Release)
	objects, err := decodeObjects("apply", asked.Apply)
	if err != nil {
		return nil, err
	}
	for _, gone := range asked.Delete {
		s.cluster.remove(gone.Kind, gone.Namespace, gone.Name)
	}
	for _, object := range objects {
		if err := s.cluster.set(object.kind, object.value); err != nil {
			return nil, err
		}
	}
	order, err := s.cluster.liveOrder(s.ctx)
	if err != nil {
		return nil, err
	}
	if asked.Pod == nil {
		return &decision{}, nil
	}
	judged, err := s.cluster.answer(s.ctx, asked)
	if err == nil && asked.Choose && !slices.Equal(order, namesOf(s.cluster.nodes)) {
		judged.Order = order
	}
	if err == nil && asked.Hold != "" {
		err = s.hold(asked.Pod, asked.Hold)
	}
	return judged, err
}

// alone answers a line that has a cluster of its own.
func alone(asked *line) (*decision, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	made, err := newCluster(ctx, asked.Config)
	if err != nil {
		return nil, err
	}
	objects, err := decodeObjects("objects", asked.Objects)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := made.set(object.kind, object.value); err != nil {
			return nil, err
		}
	}
	if asked.Pod == nil {
		return nil, fmt.Errorf("the line has no pod")
	}
	return made.answer(ctx, asked)
}

// answer judges the pod of a line, and chooses if that is asked for.
func (c *cluster) answer(ctx context.Context, asked *line) (*decision, error) {
	judged, err := c.judge(ctx, asked.Pod)
	if err != nil {
		return nil, err
	}
	profile := c.scheduler.Profiles[asked.Pod.Spec.SchedulerName]
	if asked.Devices {
		if judged.Devices, err = c.devicesFor(ctx, profile, asked.Pod); err != nil {
			return nil, err
		}
	}
	if !asked.Choose {
		return judged, nil
	}
	chosen, state, failure := c.choose(ctx, profile, asked.Pod)
	var unfit *framework.FitError
	if errors.As(failure, &unfit) && profile == c.framework {
		if chosen.Room, err = c.roomFor(ctx, state, asked.Pod, unfit.Diagnosis.NodeToStatus); err != nil {
			return nil, err
		}
	}
	judged.Choice = &chosen
	return judged, nil
}

// judge runs the cycle's steps as the framework does, but on every node and to the end.
func (c *cluster) judge(ctx context.Context, pod *v1.Pod) (*decision, error) {
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	profile, ok := c.scheduler.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("no profile is called %q", pod.Spec.SchedulerName)
	}
	judged := &decision{Nodes: map[string]finding{}}
	if len(c.nodes) == 0 {
		// A scheduler that knows no nodes asks no plugin.
		return judged, nil
	}
	state := framework.NewCycleState()
	narrowed, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if status.IsRejected() {
		found := findingOf(status)
		judged.PreFilter = &found
		return judged, nil
	}
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	var feasible []fwk.NodeInfo
	for _, node := range c.nodes {
		name := node.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			judged.Nodes[name] = finding{verdict: verdict{Code: excluded}}
			continue
		}
		status := profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		if !status.IsSuccess() && !status.IsRejected() {
			return nil, status.AsError()
		}
		judged.Nodes[name] = findingOf(status)
		if status.IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	if len(feasible) == 0 {
		return judged, nil
	}
	return judged, judged.score(ctx, profile, state, pod, feasible)
}

func (d *decision) score(
	ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
) error {
	if status := profile.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		return status.AsError()
	}
	sums, status := profile.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		return status.AsError()
	}
	d.Scores = map[string]map[string]int64{}
	d.Totals = map[string]int64{}
	best := sums[0].TotalScore
	for _, sum := range sums {
		d.Totals[sum.Name] = sum.TotalScore
		d.Scores[sum.Name] = map[string]int64{}
		for _, score := range sum.Scores {
			d.Scores[sum.Name][score.Name] = score.Score
		}
		best = max(best, sum.TotalScore)
	}
	for name, total := range d.Totals {
		if total == best {
			d.Best = append(d.Best, name)
		}
	}
	sort.Strings(d.Best)
	return nil
}
