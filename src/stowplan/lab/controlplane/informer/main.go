// Command informer watches pods and nodes the way any Go controller does, with client-go's shared
// informers, and prints what it sees as one line of JSON per event. Tests run it against an API
// server to learn whether client-go accepts that server's lists, watches and bindings.
//
// It reads commands from standard input, one per line, and exits when standard input ends:
//
//	bind NAMESPACE POD NODE
//
// A line with the event BOUND or ERROR answers each command.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// event is one line of output. Node is the node of a pod, empty while it has none.
type event struct {
	Event           string `json:"event"`
	Kind            string `json:"kind,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	Node            string `json:"node,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Message         string `json:"message,omitempty"`
}

// printer writes whole lines: the informers of pods and of nodes call it from their own goroutines.
type printer struct {
	mutex   sync.Mutex
	encoder *json.Encoder
}

func (p *printer) print(e event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := p.encoder.Encode(e); err != nil {
		os.Exit(1) // whoever read our output is gone
	}
}

func describe(name string, object any) (event, bool) {
	// A deletion that the watch missed arrives as a tombstone around the last known state.
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	switch o := object.(type) {
	case *corev1.Pod:
		return event{
			Event: name, Kind: "Pod", Namespace: o.Namespace, Name: o.Name,
			Node: o.Spec.NodeName, ResourceVersion: o.ResourceVersion,
		}, true
	case *corev1.Node:
		return event{Event: name, Kind: "Node", Name: o.Name, ResourceVersion: o.ResourceVersion}, true
	}
	return event{}, false
}

func (p *printer) handlers() cache.ResourceEventHandlerFuncs {
	report := func(name string, object any) {
		if e, ok := describe(name, object); ok {
			p.print(e)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { report("ADDED", object) },
		UpdateFunc: func(_, object any) { report("MODIFIED", object) },
		DeleteFunc: func(object any) { report("DELETED", object) },
	}
}

func bind(ctx context.Context, client kubernetes.Interface, namespace, pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	return client.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// obey carries out the commands on standard input until it ends.
func obey(ctx context.Context, client kubernetes.Interface, input io.Reader, out *printer) error {
	scanner := bufio.NewScanner(input)
	for scanner.Scan() {
		words := strings.Fields(scanner.Text())
		switch {
		case len(words) == 0:
		case words[0] == "bind" && len(words) == 4:
			answer := event{
				Event: "BOUND", Kind: "Pod", Namespace: words[1], Name: words[2], Node: words[3],
			}
			if err := bind(ctx, client, words[1], words[2], words[3]); err != nil {
				answer.Event, answer.Message = "ERROR", err.Error()
			}
			out.print(answer)
		default:
			message := fmt.Sprintf("unknown command %q; there is: bind NAMESPACE POD NODE", scanner.Text())
			out.print(event{Event: "ERROR", Message: message})
		}
	}
	return scanner.Err()
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig `file` of the API server")
	namespace := flag.String("namespace", metav1.NamespaceAll, "watch the pods of this `namespace` only")
	contentType := flag.String("content-type", "", "media `type` to ask for, such as application/json")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = *contentType
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	out := &printer{encoder: json.NewEncoder(os.Stdout)}
	factory := informers.NewSharedInformerFactoryWithOptions(
		client, 0, informers.WithNamespace(*namespace))
	kinds := map[string]cache.SharedIndexInformer{
		"Pod":  factory.Core().V1().Pods().Informer(),
		"Node": factory.Core().V1().Nodes().Informer(),
	}
	handled := map[string]cache.ResourceEventHandlerRegistration{}
	for kind, informer := range kinds {
		if handled[kind], err = informer.AddEventHandler(out.handlers()); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	for kind, registration := range handled {
		go func() {
			// The registration's own HasSynced: by then every ADDED of the first list is printed.
			if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
				out.print(event{Event: "SYNCED", Kind: kind})
			}
		}()
	}
	return obey(ctx, client, os.Stdin, out)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
}
