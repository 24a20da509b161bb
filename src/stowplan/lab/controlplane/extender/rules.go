package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// rules are the annotations of one pod for this extender, without what they begin with:
//
//	refuse   NODE=REASON,...  filter: these fail
//	never    NODE=REASON,...  filter: these fail, and preemption would not help
//	omit     NODE,...         filter: these are left out without a word
//	score    NODE=0..10,...   prioritize: the answer, whether or not these nodes were asked about
//	spare    NODE,...         preempt: nobody is to be evicted from these
//	trouble  VERB=KIND,...    what goes wrong
//
// Every verb can have the troubles 500 (that status), hang (no answer), stall (only the beginning of
// one), junk (no JSON), close (the connection), cut (in the middle of an answer) and empty ({}); filter
// and bind also error (their field Error). Further:
//
//	filter=both        those that fail are among those that stay, too
//	filter=stranger    a node that was not asked about stays
//	filter=names       names are answered where whole nodes came
//	preempt=nobody     nodes without victims
//	preempt=stranger   victims that are on no node
//	preempt=elsewhere  a node that there is not
//	bind=late          the pod is bound, then nothing is answered
type rules map[string]string

func rulesFor(name string, pod *corev1.Pod) rules {
	found := rules{}
	for key, value := range pod.Annotations {
		if rule, ok := strings.CutPrefix(key, name+".example.com/"); ok {
			found[rule] = value
		}
	}
	return found
}

// table reads KEY=VALUE,...; a KEY alone has an empty value.
func (r rules) table(rule string) map[string]string {
	entries := map[string]string{}
	for entry := range strings.SplitSeq(r[rule], ",") {
		if key, value, _ := strings.Cut(entry, "="); key != "" {
			entries[key] = value
		}
	}
	return entries
}

func (r rules) trouble(verb string) string {
	return r.table("trouble")[verb]
}
