package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
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

// client is what the scheduler would write to; nothing that is asked here makes it write.
var client = fake.NewSimpleClientset()

// cluster is a real scheduler that believes in a world of ours.
type cluster struct {
	*world
	scheduler     *scheduler.Scheduler
	configuration *config.KubeSchedulerConfiguration
	// framework of the first profile.
	framework framework.Framework
	// plugins by name: instances of our own, because the framework gives its away to nobody.
	plugins map[string]fwk.Plugin
	nodes   []fwk.NodeInfo
	// live is the snapshot that a scheduler would have kept; see liveOrder.
	live *internalcache.Snapshot
}

// newCluster makes a scheduler whose world is empty; it ends with the context.
func newCluster(ctx context.Context, given json.RawMessage) (*cluster, error) {
	configuration, err := readConfig(given)
	if err != nil {
		return nil, err
	}
	made := &cluster{
		world:         newWorld(client),
		configuration: configuration,
		live:          internalcache.NewEmptySnapshot(),
	}
	recorders := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	made.scheduler, err = scheduler.New(ctx, client, made.factory, nil, recorders,
		scheduler.WithProfiles(configuration.Profiles...),
		// With one worker, feasible nodes are found in the order of the nodes.
		scheduler.WithParallelism(1),
		scheduler.WithPercentageOfNodesToScore(configuration.PercentageOfNodesToScore),
	)
	if err != nil {
		return nil, err
	}
	made.framework = made.scheduler.Profiles[configuration.Profiles[0].SchedulerName]
	return made, nil
}

// read are configurations by their text: most requests share one of a few.
var read = map[string]*config.KubeSchedulerConfiguration{}

func readConfig(given json.RawMessage) (*config.KubeSchedulerConfiguration, error) {
	text := string(given)
	if len(given) > 0 && given[0] == '"' {
		if err := json.Unmarshal(given, &text); err != nil {
			return nil, err
		}
	}
	known, ok := read[text]
	if !ok {
		var err error
		if known, err = parseConfig(text); err != nil {
			return nil, err
		}
		read[text] = known
	}
	return known.DeepCopy(), nil
}

func parseConfig(text string) (*config.KubeSchedulerConfiguration, error) {
	if text == "" || text == "null" {
		return latest.Default()
	}
	decoded, kind, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	parsed, ok := decoded.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("the configuration is a %s", kind)
	}
	parsed.TypeMeta.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(parsed); err != nil {
		return nil, err
	}
	return parsed, nil
}

// object is one of a request's objects, read.
type object struct {
	kind  string
	value runtime.Object
}

func decodeObjects(list string, raws []json.RawMessage) ([]object, error) {
	objects := make([]object, len(raws))
	for place, raw := range raws {
		value, kind, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s[%d]: %w", list, place, err)
		}
		objects[place] = object{kind.Kind, value}
	}
	return objects, nil
}

// instantiate makes one instance of every plugin of the profile that filters or scores.
func (c *cluster) instantiate(ctx context.Context) error {
	arguments := map[string]runtime.Object{}
	for _, given := range c.configuration.Profiles[0].PluginConfig {
		arguments[given.Name] = given.Args
	}
	registry := frameworkplugins.NewInTreeRegistry()
	c.plugins = map[string]fwk.Plugin{}
	enabled := c.framework.ListPlugins()
	for _, point := range []config.PluginSet{
		enabled.PreFilter, enabled.Filter, enabled.PreScore, enabled.Score,
	} {
		for _, plugin := range point.Enabled {
			if c.plugins[plugin.Name] != nil {
				continue
			}
			instance, err := registry[plugin.Name](ctx, arguments[plugin.Name], c.framework)
			if err != nil {
				return fmt.Errorf("cannot make plugin %s: %w", plugin.Name, err)
			}
			c.plugins[plugin.Name] = instance
		}
	}
	return nil
}

// look takes the snapshot that plugins look at. It is taken anew each time: the scheduler would copy
// changed nodes only, and so believe in what it once knew of the others' images, depending on when
// it happened to look.
func (c *cluster) look(ctx context.Context) error {
	snapshot, ok := c.framework.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return fmt.Errorf("the framework's snapshot is a %T", c.framework.SnapshotSharedLister())
	}
	*snapshot = *internalcache.NewEmptySnapshot()
	if err := c.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return err
	}
	var err error
	c.nodes, err = snapshot.NodeInfos().List()
	return err
}

// liveOrder is the order of nodes in a snapshot that is kept: a node that moves to another zone keeps
// its place until another node comes or goes. Has to be asked after every change, as a scheduler would.
func (c *cluster) liveOrder(ctx context.Context) ([]string, error) {
	if err := c.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), c.live); err != nil {
		return nil, err
	}
	nodes, err := c.live.NodeInfos().List()
	return namesOf(nodes), err
}
