package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	// longest is how long a hanging answer hangs where the client never gives up.
	longest = time.Minute
	// announced is what the field Error says.
	announced = "this was ordered to fail"
)

type extender struct {
	name   string
	client kubernetes.Interface // nil where it cannot bind
	log    *requestLog
}

// ServeHTTP answers any path that ends with a verb.
func (e *extender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	line := request{
		Verb:        path.Base(r.URL.Path),
		Path:        r.URL.Path,
		From:        r.RemoteAddr,
		Protocol:    r.Proto,
		ContentType: r.Header.Get("Content-Type"),
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		line.Client = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if json.Valid(body) {
		line.Body = body
	}
	respond, err := e.understand(r, body, &line)
	if err != nil {
		line.Problem = err.Error()
	}
	e.log.write(line)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, trouble := respond()
	switch trouble {
	case "500":
		http.Error(w, announced, http.StatusInternalServerError)
	case "hang", "late":
		hang(r)
	case "stall":
		begin(w)
		hang(r)
	case "junk":
		fmt.Fprint(w, "this is no JSON")
	case "cut":
		begin(w)
		panic(http.ErrAbortHandler)
	case "close":
		panic(http.ErrAbortHandler)
	case "empty":
		fmt.Fprint(w, "{}")
	default:
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			return // the client is gone
		}
	}
}

// begin sends the beginning of an answer.
func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	fmt.Fprint(w, `{"NodeNames": [`)
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
}

// hang returns when the client has given up.
func hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(longest):
	}
}

// understand completes the line of the log; what it returns gives the answer, and what is to go wrong
// with it. An error means that the request is no good.
func (e *extender) understand(r *http.Request, body []byte, line *request) (func() (any, string), error) {
	if r.Method != http.MethodPost {
		return nil, fmt.Errorf("%s instead of POST", r.Method)
	}
	switch line.Verb {
	case "filter", "prioritize":
		var args extenderv1.ExtenderArgs
		if err := decode(body, &args); err != nil {
			return nil, err
		}
		if args.Pod == nil || (args.Nodes == nil) == (args.NodeNames == nil) {
			return nil, fmt.Errorf("there must be Pod, and either Nodes or NodeNames")
		}
		line.about(args.Pod)
		line.Form, line.Nodes = "whole", namesOf(&args)
		if args.Nodes == nil {
			line.Form = "names"
		}
		rules := rulesFor(e.name, args.Pod)
		trouble := rules.trouble(line.Verb)
		if line.Verb == "filter" {
			return func() (any, string) { return filter(&args, rules, trouble), trouble }, nil
		}
		list, err := prioritize(rules)
		return func() (any, string) { return list, trouble }, err
	case "preempt":
		var args extenderv1.ExtenderPreemptionArgs
		if err := decode(body, &args); err != nil {
			return nil, err
		}
		if args.Pod == nil || (args.NodeNameToVictims == nil) == (args.NodeNameToMetaVictims == nil) {
			return nil, fmt.Errorf("there must be Pod, and one of the two maps of victims")
		}
		line.about(args.Pod)
		line.victims(&args)
		rules := rulesFor(e.name, args.Pod)
		trouble := rules.trouble(line.Verb)
		return func() (any, string) { return preempt(&args, rules, trouble), trouble }, nil
	case "bind":
		var args extenderv1.ExtenderBindingArgs
		if err := decode(body, &args); err != nil {
			return nil, err
		}
		if e.client == nil {
			return nil, fmt.Errorf("without -kubeconfig nothing can be bound")
		}
		line.Pod, line.UID, line.Nodes = args.PodName, string(args.PodUID), []string{args.Node}
		return func() (any, string) { return e.bind(r.Context(), &args) }, nil
	}
	return nil, fmt.Errorf("there is no verb %q", line.Verb)
}

// decode refuses fields that the protocol does not have.
func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func (r *request) about(pod *corev1.Pod) {
	r.Pod, r.UID = pod.Name, string(pod.UID)
}

func (r *request) victims(args *extenderv1.ExtenderPreemptionArgs) {
	r.Form, r.Victims = "names", map[string][]string{}
	for node, victims := range args.NodeNameToMetaVictims {
		for _, pod := range victims.Pods {
			r.Victims[node] = append(r.Victims[node], pod.UID)
		}
	}
	if args.NodeNameToVictims != nil {
		r.Form = "whole"
	}
	for node, victims := range args.NodeNameToVictims {
		for _, pod := range victims.Pods {
			r.Victims[node] = append(r.Victims[node], pod.Name)
		}
	}
}

func namesOf(args *extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	names := []string{}
	for i := range args.Nodes.Items {
		names = append(names, args.Nodes.Items[i].Name)
	}
	return names
}

func filter(args *extenderv1.ExtenderArgs, rules rules, trouble string) *extenderv1.ExtenderFilterResult {
	if trouble == "error" {
		return &extenderv1.ExtenderFilterResult{Error: announced}
	}
	result := &extenderv1.ExtenderFilterResult{
		FailedNodes:                extenderv1.FailedNodesMap{},
		FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{},
	}
	refused, never, omitted := rules.table("refuse"), rules.table("never"), rules.table("omit")
	kept := []string{}
	for _, name := range namesOf(args) {
		reason, isRefused := refused[name]
		if isRefused {
			result.FailedNodes[name] = reason
		}
		final, isNever := never[name]
		if isNever {
			result.FailedAndUnresolvableNodes[name] = final
		}
		_, isOmitted := omitted[name]
		if trouble == "both" || !(isRefused || isNever || isOmitted) {
			kept = append(kept, name)
		}
	}
	if trouble == "stranger" {
		kept = append(kept, "stranger")
	}
	if args.Nodes == nil || trouble == "names" {
		result.NodeNames = &kept
		return result
	}
	result.Nodes = &corev1.NodeList{}
	for _, node := range args.Nodes.Items {
		if slices.Contains(kept, node.Name) {
			result.Nodes.Items = append(result.Nodes.Items, node)
		}
	}
	return result
}

func prioritize(rules rules) (extenderv1.HostPriorityList, error) {
	list := extenderv1.HostPriorityList{}
	for node, text := range rules.table("score") {
		score, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, extenderv1.HostPriority{Host: node, Score: score})
	}
	return list, nil
}

func preempt(args *extenderv1.ExtenderPreemptionArgs, rules rules, trouble string) *extenderv1.ExtenderPreemptionResult {
	offered := args.NodeNameToMetaVictims
	if offered == nil {
		offered = map[string]*extenderv1.MetaVictims{}
	}
	for node, victims := range args.NodeNameToVictims {
		offered[node] = &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			offered[node].Pods = append(offered[node].Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
	}
	for node := range rules.table("spare") {
		delete(offered, node)
	}
	for _, victims := range offered {
		switch trouble {
		case "nobody":
			victims.Pods = nil
		case "stranger":
			victims.Pods = []*extenderv1.MetaPod{{UID: "stranger"}}
		}
	}
	if trouble == "elsewhere" {
		offered = map[string]*extenderv1.MetaVictims{"elsewhere": {}}
	}
	return &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: offered}
}

// bind asks the API server for the pod's rules: the request has none.
func (e *extender) bind(ctx context.Context, args *extenderv1.ExtenderBindingArgs) (any, string) {
	result := &extenderv1.ExtenderBindingResult{}
	pods := e.client.CoreV1().Pods(args.PodNamespace)
	pod, err := pods.Get(ctx, args.PodName, metav1.GetOptions{})
	if err != nil {
		result.Error = err.Error()
		return result, ""
	}
	trouble := rulesFor(e.name, pod).trouble("bind")
	switch trouble {
	case "error":
		result.Error = announced
	case "", "late":
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{
				Name:        args.PodName,
				Namespace:   args.PodNamespace,
				UID:         args.PodUID,
				Annotations: map[string]string{"bound-by": e.name},
			},
			Target: corev1.ObjectReference{Kind: "Node", Name: args.Node},
		}
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			result.Error = err.Error()
		}
	}
	return result, trouble
}
