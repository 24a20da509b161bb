package main

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// kinds that the scheduler or one of its plugins watches.
var kinds = map[string]runtime.Object{
	"CSIDriver":             &storagev1.CSIDriver{},
	"CSINode":               &storagev1.CSINode{},
	"CSIStorageCapacity":    &storagev1.CSIStorageCapacity{},
	"DeviceClass":           &resourcev1.DeviceClass{},
	"Namespace":             &v1.Namespace{},
	"Node":                  &v1.Node{},
	"PersistentVolume":      &v1.PersistentVolume{},
	"PersistentVolumeClaim": &v1.PersistentVolumeClaim{},
	"Pod":                   &v1.Pod{},
	"PodDisruptionBudget":   &policyv1.PodDisruptionBudget{},
	"PriorityClass":         &schedulingv1.PriorityClass{},
	"ReplicaSet":            &appsv1.ReplicaSet{},
	"ReplicationController": &v1.ReplicationController{},
	"ResourceClaim":         &resourcev1.ResourceClaim{},
	"ResourceSlice":         &resourcev1.ResourceSlice{},
	"Service":               &v1.Service{},
	"StatefulSet":           &appsv1.StatefulSet{},
	"StorageClass":          &storagev1.StorageClass{},
	"VolumeAttachment":      &storagev1.VolumeAttachment{},
}

// stillInformer is an informer that watches nothing: what it is told, it hands on to its handlers
// before it returns. So there is nothing to start and nothing to wait for, the order is that of the
// request, and the scheduler's own handlers keep its cache and its queue as they always do.
type stillInformer struct {
	// Whatever is not written here is not called; if it is, the request fails with a panic.
	cache.SharedIndexInformer
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
}

func newStillInformer() *stillInformer {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &stillInformer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)}
}

func (i *stillInformer) GetIndexer() cache.Indexer { return i.indexer }
func (i *stillInformer) GetStore() cache.Store     { return i.indexer }
func (i *stillInformer) HasSynced() bool           { return true }

func (i *stillInformer) HasSyncedChecker() cache.DoneChecker { return alwaysDone{} }

func (i *stillInformer) AddIndexers(indexers cache.Indexers) error {
	return i.indexer.AddIndexers(indexers)
}

func (i *stillInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i, nil
}

func (i *stillInformer) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

type alwaysDone struct{}

func (alwaysDone) Name() string { return "informer" }

func (alwaysDone) Done() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

// world is all that an API server would hold; every change reaches the handlers at once.
type world struct {
	factory   informers.SharedInformerFactory
	informers map[string]*stillInformer
	version   int
}

func newWorld(client kubernetes.Interface) *world {
	made := &world{
		factory:   informers.NewSharedInformerFactory(client, 0),
		informers: map[string]*stillInformer{},
	}
	for kind, example := range kinds {
		informer := newStillInformer()
		made.informers[kind] = informer
		made.factory.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return informer
		})
	}
	return made
}

// set creates the object or puts it in the place of the one with its name. Versions are given as
// an API server would, because handlers ignore an object that is not newer.
func (w *world) set(kind string, object runtime.Object) error {
	informer, ok := w.informers[kind]
	if !ok {
		return fmt.Errorf("the scheduler does not watch objects of kind %q", kind)
	}
	about, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if about.GetUID() == "" {
		about.SetUID(types.UID(about.GetNamespace() + "/" + about.GetName()))
	}
	w.version++
	about.SetResourceVersion(strconv.Itoa(w.version))
	if pod, ok := object.(*v1.Pod); ok && isOver(pod) {
		// The scheduler's informer asks for pods that still run, or will.
		w.remove(kind, pod.Namespace, pod.Name)
		return nil
	}
	old, existed, err := informer.indexer.Get(object)
	if err != nil {
		return err
	}
	if existed && isAnother(old, object) {
		w.remove(kind, about.GetNamespace(), about.GetName())
		existed = false
	}
	if !existed {
		if err := informer.indexer.Add(object); err != nil {
			return err
		}
		for _, handler := range informer.handlers {
			handler.OnAdd(object, false)
		}
		return nil
	}
	if err := informer.indexer.Update(object); err != nil {
		return err
	}
	for _, handler := range informer.handlers {
		handler.OnUpdate(old, object)
	}
	return nil
}

// remove deletes the object, if it is there.
func (w *world) remove(kind, namespace, name string) {
	informer, ok := w.informers[kind]
	if !ok {
		return
	}
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	old, existed, err := informer.indexer.GetByKey(key)
	if err != nil || !existed {
		return
	}
	if err := informer.indexer.Delete(old); err != nil {
		panic(err)
	}
	for _, handler := range informer.handlers {
		handler.OnDelete(old)
	}
}

func isOver(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// isAnother tells whether an object of the same name took the place of one that is gone. An update
// that moves a pod to another node is impossible; the scheduler ends its process when it sees one.
func isAnother(old, new any) bool {
	before, _ := meta.Accessor(old)
	after, _ := meta.Accessor(new)
	if before.GetUID() != after.GetUID() {
		return true
	}
	was, isPod := old.(*v1.Pod)
	return isPod && was.Spec.NodeName != "" && was.Spec.NodeName != new.(*v1.Pod).Spec.NodeName
}
