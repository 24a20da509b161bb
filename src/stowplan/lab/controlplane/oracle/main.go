// The oracle says what kube-scheduler's own plugins think of a pod and a cluster.
//
// It links the scheduler's packages and reads one request a line from stdin, a cluster and a pod as
// JSON; for each it writes one answer a line to stdout: every filter plugin's verdict on every node
// (none is spared because another one has already refused), every score plugin's raw and normalised
// scores, and what the scheduler's own algorithm makes of it all. Every request gets a scheduler of
// its own, so nothing is left over from the one before.
//
// A line with an "id" is one of those that `stowplan decide` reads, or a step of its streams, and is
// answered as `stowplan decide` answers; see decide.go.
//
// A request that cannot be answered is answered with {"error": ...}.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// request is a cluster and the pod to judge. Objects are taken as an API server would have stored
// them, that is with all defaults filled in; pods and nominated pods need UIDs.
type request struct {
	// Nodes in the order in which the scheduler got to know them.
	Nodes []*v1.Node `json:"nodes"`
	// Pods that stand on nodes.
	Pods []*v1.Pod `json:"pods"`
	// Nominated pods wait, and are promised the node in their status.
	Nominated []*v1.Pod `json:"nominated"`
	Pod       *v1.Pod   `json:"pod"`
	// Config is a KubeSchedulerConfiguration, as an object or as YAML in a string; the first profile
	// judges.
	Config json.RawMessage `json:"config"`
	// Objects of any other kind: namespaces, services, claims, ...
	Objects []json.RawMessage `json:"objects"`
	// ScoreAll scores every node, not only those that passed the filters.
	ScoreAll bool `json:"scoreAll"`
	// Devices: say what DynamicResources allocates.
	Devices bool `json:"devices"`
}

// verdict is a status: a code such as Unschedulable, and why.
type verdict struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
}

// filterAnswer is one plugin's part in filtering.
type filterAnswer struct {
	// PreFilter is missing where the plugin has no such point.
	PreFilter *verdict `json:"prefilter,omitempty"`
	// Only are the nodes that PreFilter wants to see, nil for all.
	Only []string `json:"only,omitempty"`
	// Nodes is missing when PreFilter answered anything but success.
	Nodes map[string]verdict `json:"nodes,omitempty"`
}

// scoreAnswer is one plugin's part in scoring.
type scoreAnswer struct {
	PreScore   *verdict         `json:"prescore,omitempty"`
	Raw        map[string]int64 `json:"raw,omitempty"`
	Normalized map[string]int64 `json:"normalized,omitempty"`
	Weight     int32            `json:"weight"`
	Error      *verdict         `json:"error,omitempty"`
}

// outcome is what the scheduler's algorithm did with the profile as a whole.
type outcome struct {
	Node      string `json:"node"`
	Evaluated int    `json:"evaluated"`
	Feasible  int    `json:"feasible"`
	// Message is the text of the error, such as "0/3 nodes are available: ...", PostFilter's included.
	Message string `json:"message,omitempty"`
	// Plugins that rejected the pod somewhere.
	Plugins []string `json:"plugins,omitempty"`
	// Totals are the weighted sums of the feasible nodes, when more than one was.
	Totals map[string]int64 `json:"totals,omitempty"`
	// Room is there if evicting pods would help.
	Room *room `json:"room,omitempty"`
}

type answer struct {
	// Order in which the scheduler looks at the nodes.
	Order    []string                `json:"order"`
	Filter   map[string]filterAnswer `json:"filter"`
	Feasible []string                `json:"feasible"`
	Score    map[string]scoreAnswer  `json:"score"`
	Outcome  outcome                 `json:"outcome"`
	Devices  *devices                `json:"devices,omitempty"`
}

// oracle answers lines; all that it remembers is the stream.
type oracle struct {
	stream stream
}

// respond answers one line. A panic becomes an error, with its stack.
func (o *oracle) respond(text []byte) (reply any) {
	var kind struct {
		ID      json.RawMessage `json:"id"`
		Objects json.RawMessage `json:"objects"`
	}
	defer func() {
		if cause := recover(); cause != nil {
			reply = failure{kind.ID, fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
		}
	}()
	if err := json.Unmarshal(text, &kind); err != nil {
		return failure{nil, "cannot read the line: " + err.Error()}
	}
	var err error
	if kind.ID == nil {
		reply, err = o.detail(text)
	} else {
		reply, err = o.decide(text, kind.Objects != nil)
	}
	if err != nil {
		return failure{kind.ID, err.Error()}
	}
	return reply
}

func (o *oracle) detail(text []byte) (*answer, error) {
	var asked request
	if err := readStrictly(text, &asked); err != nil {
		return nil, err
	}
	if asked.Pod == nil {
		return nil, errors.New("the request has no pod")
	}
	return judge(&asked)
}

func (o *oracle) decide(text []byte, isAlone bool) (*decision, error) {
	var asked line
	if err := readStrictly(text, &asked); err != nil {
		return nil, err
	}
	answerer := o.stream.step
	if isAlone {
		answerer = alone
	}
	judged, err := answerer(&asked)
	if err != nil {
		return nil, err
	}
	judged.ID = asked.ID
	return judged, nil
}

func readStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("cannot read the request: %w", err)
	}
	return nil
}

type failure struct {
	ID    json.RawMessage `json:"id,omitempty"`
	Error string          `json:"error"`
}

func run(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	encoder := json.NewEncoder(out)
	answering := &oracle{}
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := encoder.Encode(answering.respond(line)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func main() {
	// The scheduler's own log would drown what matters: errors of ours, and panics.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}
