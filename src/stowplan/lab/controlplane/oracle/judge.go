package main

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// judge asks every plugin by itself, and then the scheduler as a whole.
func judge(asked *request) (*answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	made, err := newDetailedCluster(ctx, asked)
	if err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	judged := &answer{Order: namesOf(made.nodes)}
	var feasible []fwk.NodeInfo
	judged.Filter, feasible = made.filter(ctx, state, asked.Pod)
	judged.Feasible = namesOf(feasible)
	scored := feasible
	if asked.ScoreAll {
		scored = made.nodes
	}
	if judged.Score, err = made.score(ctx, state, asked.Pod, scored); err != nil {
		return nil, err
	}
	if judged.Outcome, err = made.decide(ctx, asked.Pod); err != nil {
		return nil, err
	}
	if asked.Devices {
		judged.Devices, err = made.devicesFor(ctx, made.framework, asked.Pod)
	}
	return judged, err
}

// newDetailedCluster is a cluster with what was asked about, and plugins to ask one by one.
func newDetailedCluster(ctx context.Context, asked *request) (*cluster, error) {
	made, err := newCluster(ctx, asked.Config)
	if err != nil {
		return nil, err
	}
	if err := made.instantiate(ctx); err != nil {
		return nil, err
	}
	objects, err := decodeObjects("objects", asked.Objects)
	if err != nil {
		return nil, err
	}
	for place, object := range objects {
		if object.kind == "Node" || object.kind == "Pod" {
			return nil, fmt.Errorf("objects[%d] is a node or a pod: those have lists of their own", place)
		}
	}
	for _, node := range asked.Nodes {
		objects = append(objects, object{"Node", node})
	}
	for _, pod := range append(asked.Pods, asked.Nominated...) {
		objects = append(objects, object{"Pod", pod})
	}
	for _, object := range objects {
		if err := made.set(object.kind, object.value); err != nil {
			return nil, err
		}
	}
	return made, made.look(ctx)
}

func namesOf(nodes []fwk.NodeInfo) []string {
	names := make([]string, len(nodes))
	for place, node := range nodes {
		names[place] = node.Node().Name
	}
	return names
}

func verdictOf(status *fwk.Status) verdict {
	if status == nil {
		return verdict{Code: fwk.Success.String()}
	}
	return verdict{Code: status.Code().String(), Reasons: status.Reasons()}
}

// filter runs PreFilter and Filter of each plugin on every node. Feasible are the nodes to which
// nobody objects; if a PreFilter rejects the pod altogether, there are none.
func (c *cluster) filter(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod,
) (map[string]filterAnswer, []fwk.NodeInfo) {
	answers := map[string]filterAnswer{}
	enabled := c.framework.ListPlugins()
	rejected := false
	refused := sets.New[string]()
	for _, plugin := range enabled.PreFilter.Enabled {
		result, status := c.plugins[plugin.Name].(fwk.PreFilterPlugin).PreFilter(ctx, state, pod, c.nodes)
		said := verdictOf(status)
		given := filterAnswer{PreFilter: &said}
		if status.IsSuccess() && !result.AllNodes() {
			given.Only = sets.List(result.NodeNames)
			for _, node := range c.nodes {
				if !result.NodeNames.Has(node.Node().Name) {
					refused.Insert(node.Node().Name)
				}
			}
		}
		rejected = rejected || !status.IsSuccess() && !status.IsSkip()
		answers[plugin.Name] = given
	}
	for _, plugin := range enabled.Filter.Enabled {
		given := answers[plugin.Name]
		if given.PreFilter != nil && given.PreFilter.Code != fwk.Success.String() {
			continue
		}
		given.Nodes = map[string]verdict{}
		for _, node := range c.nodes {
			status := c.plugins[plugin.Name].(fwk.FilterPlugin).Filter(ctx, state, pod, node)
			given.Nodes[node.Node().Name] = verdictOf(status)
			if !status.IsSuccess() {
				refused.Insert(node.Node().Name)
			}
		}
		answers[plugin.Name] = given
	}
	var feasible []fwk.NodeInfo
	for _, node := range c.nodes {
		if !rejected && !refused.Has(node.Node().Name) {
			feasible = append(feasible, node)
		}
	}
	return answers, feasible
}

// score runs PreScore, Score and NormalizeScore of each plugin, as if the nodes were the feasible ones.
func (c *cluster) score(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
) (map[string]scoreAnswer, error) {
	answers := map[string]scoreAnswer{}
	enabled := c.framework.ListPlugins()
	for _, plugin := range enabled.PreScore.Enabled {
		said := verdictOf(c.plugins[plugin.Name].(fwk.PreScorePlugin).PreScore(ctx, state, pod, nodes))
		answers[plugin.Name] = scoreAnswer{PreScore: &said}
	}
	for _, plugin := range enabled.Score.Enabled {
		given := answers[plugin.Name]
		given.Weight = plugin.Weight
		if given.PreScore == nil || given.PreScore.Code == fwk.Success.String() {
			scorer, ok := c.plugins[plugin.Name].(fwk.ScorePlugin)
			if !ok {
				return nil, fmt.Errorf("plugin %s does not score", plugin.Name)
			}
			given.run(ctx, scorer, state, pod, nodes)
		}
		answers[plugin.Name] = given
	}
	return answers, nil
}

func (s *scoreAnswer) run(
	ctx context.Context, scorer fwk.ScorePlugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
) {
	scores := make(fwk.NodeScoreList, len(nodes))
	for place, node := range nodes {
		raw, status := scorer.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			said := verdictOf(status)
			s.Error = &said
			return
		}
		scores[place] = fwk.NodeScore{Name: node.Node().Name, Score: raw}
	}
	s.Raw = byName(scores)
	if extensions := scorer.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(ctx, state, pod, scores); !status.IsSuccess() {
			said := verdictOf(status)
			s.Error = &said
			return
		}
	}
	s.Normalized = byName(scores)
}

func byName(scores fwk.NodeScoreList) map[string]int64 {
	named := map[string]int64{}
	for _, score := range scores {
		named[score.Name] = score.Score
	}
	return named
}

// choose lets the scheduler choose. The error is there if it found no node.
func (c *cluster) choose(
	ctx context.Context, profile framework.Framework, pod *v1.Pod,
) (outcome, fwk.CycleState, error) {
	// As the queue does: that a term cannot be parsed is for the plugins to say.
	info, _ := framework.NewPodInfo(pod)
	state := framework.NewCycleState()
	result, err := c.scheduler.SchedulePod(ctx, profile, state, &framework.QueuedPodInfo{PodInfo: info})
	chosen := outcome{
		Node:      result.SuggestedHost,
		Evaluated: result.EvaluatedNodes,
		Feasible:  result.FeasibleNodes,
	}
	if err != nil {
		var unfit *framework.FitError
		if errors.As(err, &unfit) {
			chosen.Plugins = sets.List(unfit.Diagnosis.UnschedulablePlugins)
		}
		chosen.Message = err.Error()
	}
	return chosen, state, err
}

// decide lets the scheduler choose or make room, and has its framework add up the feasible nodes'
// scores.
func (c *cluster) decide(ctx context.Context, pod *v1.Pod) (outcome, error) {
	decided, state, err := c.choose(ctx, c.framework, pod)
	if err != nil {
		var unfit *framework.FitError
		if errors.As(err, &unfit) && c.framework.HasPostFilterPlugins() {
			// Preemption reads the pod anew: it may have changed since it was queued.
			if err := c.informers["Pod"].indexer.Add(pod); err != nil {
				return outcome{}, err
			}
			_, status := c.framework.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
			unfit.Diagnosis.PostFilterMsg = status.Message()
			if status.IsSuccess() {
				room, err := c.makeRoom(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
				if err != nil {
					return outcome{}, err
				}
				decided.Room = room
			}
			decided.Message = err.Error()
		}
		return decided, nil
	}
	if decided.Feasible < 2 {
		return decided, nil
	}
	again := framework.NewCycleState()
	narrowed, status, _ := c.framework.RunPreFilterPlugins(ctx, again, pod)
	if !status.IsSuccess() {
		return outcome{}, status.AsError()
	}
	var nodes []fwk.NodeInfo
	for _, node := range c.nodes {
		if narrowed.AllNodes() || narrowed.NodeNames.Has(node.Node().Name) {
			if c.framework.RunFilterPluginsWithNominatedPods(ctx, again, pod, node).IsSuccess() {
				nodes = append(nodes, node)
			}
		}
	}
	if len(nodes) != decided.Feasible {
		// The scheduler looked at a part of the nodes only, and does not say at which.
		return decided, nil
	}
	if status := c.framework.RunPreScorePlugins(ctx, again, pod, nodes); !status.IsSuccess() {
		return outcome{}, status.AsError()
	}
	sums, status := c.framework.RunScorePlugins(ctx, again, pod, nodes)
	if !status.IsSuccess() {
		return outcome{}, status.AsError()
	}
	decided.Totals = map[string]int64{}
	for _, sum := range sums {
		decided.Totals[sum.Name] = sum.TotalScore
	}
	return decided, nil
}
