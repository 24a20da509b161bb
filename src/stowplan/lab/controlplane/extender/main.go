// Command extender is a scheduler extender for tests: filter, prioritize, preempt and bind over HTTP
// or HTTPS, in both forms of nodes. It shares no code with Stowplan and speaks with the Go types that
// kube-scheduler itself uses.
//
// It has no will of its own: what it answers is written in the annotations of the pod that it is
// asked about, NAME.example.com/RULE, where NAME is the -name of this extender. See rules.go.
//
// Every request is written to the -log file before it is answered, as one line of JSON. The first
// line of standard output says where it serves.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// request is one line of the log. Body is what was sent, byte for byte.
type request struct {
	Verb        string              `json:"verb"`
	Path        string              `json:"path"`
	From        string              `json:"from"`     // one address is one connection
	Protocol    string              `json:"protocol"` // such as HTTP/1.1
	ContentType string              `json:"contentType"`
	Client      string              `json:"client,omitempty"` // the name in the client's certificate
	Pod         string              `json:"pod,omitempty"`
	UID         string              `json:"uid,omitempty"`
	Form        string              `json:"form,omitempty"` // of nodes or victims: names or whole
	Nodes       []string            `json:"nodes,omitempty"`
	Victims     map[string][]string `json:"victims,omitempty"` // by node: names, or UIDs
	Body        json.RawMessage     `json:"body,omitempty"`
	Problem     string              `json:"problem,omitempty"` // why the body is no good
}

// requestLog writes whole lines: requests come at the same time.
type requestLog struct {
	mutex   sync.Mutex
	encoder *json.Encoder
}

func (l *requestLog) write(r request) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.encoder.Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, "extender:", err)
		os.Exit(1) // a test would wait for a line that never comes
	}
}

func run() error {
	name := flag.String("name", "extender", "the first part of the annotations that are obeyed")
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig `file` with which pods are bound")
	logFile := flag.String("log", os.DevNull, "the `file` for requests")
	certificate := flag.String("cert", "", "the certificate `file`; with it HTTPS is served")
	key := flag.String("key", "", "the `file` with the certificate's key")
	clientAuthority := flag.String("client-ca", "", "the `file` with who signs clients' certificates")
	flag.Parse()

	log, err := os.OpenFile(*logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	this := &extender{name: *name, log: &requestLog{encoder: json.NewEncoder(log)}}
	if *kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
		if err != nil {
			return err
		}
		if this.client, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
	}
	server := &http.Server{Handler: this, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if *clientAuthority != "" {
		pem, err := os.ReadFile(*clientAuthority)
		if err != nil {
			return err
		}
		server.TLSConfig.ClientCAs = x509.NewCertPool()
		if !server.TLSConfig.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("there is no certificate in %s", *clientAuthority)
		}
		server.TLSConfig.ClientAuth = tls.RequireAndVerifyClientCert
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	if *certificate == "" {
		fmt.Printf("serving http://%s\n", listener.Addr())
		return server.Serve(listener)
	}
	fmt.Printf("serving https://%s\n", listener.Addr())
	return server.ServeTLS(listener, *certificate, *key)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "extender:", err)
		os.Exit(1)
	}
}
