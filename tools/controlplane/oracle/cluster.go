package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
)

// cluster is a real scheduler whose cache holds the request's nodes and pods.
type cluster struct {
	scheduler *scheduler.Scheduler
	framework framework.Framework
	profile   *config.KubeSchedulerProfile
	// plugins by name: instances of our own, because the framework gives its away to nobody.
	plugins map[string]fwk.Plugin
	nodes   []fwk.NodeInfo
}

// newCluster starts everything that must run; it ends with the context.
func newCluster(ctx context.Context, asked *request) (*cluster, error) {
	configuration, err := readConfig(asked.Config)
	if err != nil {
		return nil, err
	}
	objects, err := decodeObjects(asked)
	if err != nil {
		return nil, err
	}
	// Nodes and pods are not given to the client: the informers' handlers would put them into the
	// cache a second time, and in an order of their own.
	client := fake.NewSimpleClientset(objects...)
	factory := scheduler.NewInformerFactory(client, 0)
	recorders := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	sched, err := scheduler.New(ctx, client, factory, nil, recorders,
		scheduler.WithProfiles(configuration.Profiles...),
		// With one worker, feasible nodes are found in the order of the nodes.
		scheduler.WithParallelism(1),
		scheduler.WithPercentageOfNodesToScore(configuration.PercentageOfNodesToScore),
	)
	if err != nil {
		return nil, err
	}
	profile := &configuration.Profiles[0]
	made := &cluster{scheduler: sched, framework: sched.Profiles[profile.SchedulerName], profile: profile}
	if made.plugins, err = made.instantiate(ctx); err != nil {
		return nil, err
	}
	if len(objects) > 0 {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		if err := sched.WaitForHandlersSync(ctx); err != nil {
			return nil, err
		}
	}
	return made, made.fill(ctx, asked, factory)
}

func readConfig(text string) (*config.KubeSchedulerConfiguration, error) {
	if text == "" {
		return latest.Default()
	}
	decoded, kind, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	read, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("the configuration is a %s", kind)
	}
	read.TypeMeta.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
		return nil, err
	}
	return read, nil
}

func decodeObjects(asked *request) ([]runtime.Object, error) {
	var objects []runtime.Object
	for place, raw := range asked.Objects {
		object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("cannot read objects[%d]: %w", place, err)
		}
		switch object.(type) {
		case *v1.Node, *v1.Pod:
			return nil, fmt.Errorf("objects[%d] is a node or a pod: those have lists of their own", place)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// instantiate makes one instance of every plugin of the profile that filters or scores.
func (c *cluster) instantiate(ctx context.Context) (map[string]fwk.Plugin, error) {
	arguments := map[string]runtime.Object{}
	for _, given := range c.profile.PluginConfig {
		arguments[given.Name] = given.Args
	}
	registry := frameworkplugins.NewInTreeRegistry()
	made := map[string]fwk.Plugin{}
	enabled := c.framework.ListPlugins()
	for _, point := range []config.PluginSet{
		enabled.PreFilter, enabled.Filter, enabled.PreScore, enabled.Score,
	} {
		for _, plugin := range point.Enabled {
			if made[plugin.Name] != nil {
				continue
			}
			instance, err := registry[plugin.Name](ctx, arguments[plugin.Name], c.framework)
			if err != nil {
				return nil, fmt.Errorf("cannot make plugin %s: %w", plugin.Name, err)
			}
			made[plugin.Name] = instance
		}
	}
	return made, nil
}

// fill puts nodes and pods into the scheduler's cache and takes the snapshot that plugins look at.
func (c *cluster) fill(
	ctx context.Context, asked *request, factory informers.SharedInformerFactory,
) error {
	logger := klog.FromContext(ctx)
	for _, node := range asked.Nodes {
		c.scheduler.Cache.AddNode(logger, node)
	}
	for _, pod := range asked.Pods {
		if err := c.scheduler.Cache.AddPod(logger, pod); err != nil {
			return err
		}
	}
	// Whoever is nominated must be in the queue, and the queue wants it known to the lister of pods.
	known := factory.Core().V1().Pods().Informer().GetIndexer()
	for _, pod := range asked.Nominated {
		if err := known.Add(pod); err != nil {
			return err
		}
		c.scheduler.SchedulingQueue.Add(ctx, pod)
	}
	snapshot, ok := c.framework.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return fmt.Errorf("the framework's snapshot is a %T", c.framework.SnapshotSharedLister())
	}
	if err := c.scheduler.Cache.UpdateSnapshot(logger, snapshot); err != nil {
		return err
	}
	var err error
	c.nodes, err = snapshot.NodeInfos().List()
	return err
}
