package main

import (
	"math/rand"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// selectorCase is one selector, as text or as an object, with its answer for each of the label
// sets (or field sets, or nodes) of the same file: "1" matches, "0" does not.
type selectorCase struct {
	In      any    `json:"in"`
	Matches string `json:"matches,omitempty"`
	Error   string `json:"error,omitempty"`
}

type tolerationCase struct {
	Toleration v1.Toleration `json:"toleration"`
	Taint      v1.Taint      `json:"taint"`
	Tolerates  bool          `json:"tolerates"`
}

var labelSets = []labels.Set{
	{},
	{"a": "b"},
	{"a": ""},
	{"a": "x", "c": "d"},
	{"a": "b", "c": "d", "e": "y"},
	{"e": "x", "f": "1"},
	{"f": "5", "g": "g"},
	{"f": "-5", "in": "notin"},
	{"f": "007", "example.com/zone": "z1"},
	{"f": "+9", "a": "b", "example.com/zone": "z2"},
	{"f": "9223372036854775807", "notin": "in"},
	{"f": "9223372036854775808"},
	{"f": "five", "c": "1_0"},
}

var fieldSets = []fields.Set{
	{},
	{"metadata.name": "x"},
	{"metadata.name": "x", "spec.nodeName": "n1", "status.phase": "Running"},
	{"metadata.name": "y", "spec.nodeName": "", "status.phase": "Succeeded"},
	{"metadata.name": "a,b=c", "status.phase": `back\slash`},
}

var labelTexts = []string{
	"", " ", "a", "!a", "! a", "a=b", "a==b", "a = b", "a!=b", "a=", "a==", "a!=", "a=b,c=d", "a=b , c=d", "a,c", "!a,!c",
	"a in (b)", "a in (b,x)", "a in(b,x)", "a in ( b , x )", "a notin (b)", "a notin (b,x)", "a in ()", "a notin ()",
	"a in (,)", "a in (b,)", "a in (,b)", "a in (b,,x)", "a notin (,b)", "a in (in,notin)", "in", "notin", "!in", "in=notin",
	"in in (notin)", "notin notin (in)", "notin in (in)", "f>0", "f>5", "f<5", "f > -6", "f<-4", "f>+5", "f<007", "f>9223372036854775806",
	"f>9223372036854775808", "f>x", "f>", "f<", "f>1,f<8", "example.com/zone=z1", "example.com/zone in (z1,z2)", "!example.com/zone",
	"a=b,a!=b", "a=b,a=b", "a in (b),a in (x)", "c=1_0", "c=1.0", "c=1-0", "e in (x,y),f,!g", "a=b,c!=d,e in (x,y),!f,g",
	"a\t=\tb", "a\n=b", "a=b\r\n,c",
	// refused
	",", "a,", ",a", "a,,c", "=", "==", "!", "!!a", "!a=b", "!a in (b)", "a b", "a=b c", "a=b=c", "a==b==c", "a===b", "a!b", "a!!=b", "a=!b",
	"a=(b)", "a in b", "a in", "a in (", "a in (b", "a in (b,", "a in (b c)", "a in (b=c)", "a in (!b)", "a in (b))", "a in (b),", "a in ((b))",
	"a notin", "a notin b", "a (b)", "(a)", "a)", "a><1", "a>=1", "a<=1", "a>1,2", "a gt 1", "a=b;c=d", "a=b|c", "a=b/c", "a=-b", "a=b-",
	"a=_b", "a=.b", "a=é", "é=b", "a@b=c", "a.=b", "-a=b", "a-=b", "_a", "a/b/c=d", "/a=b", "a/=b", "A.com/a=b", "a..b/c=d", "-x.com/a=b",
	"exa_mple.com/a=b", "a in (b/c,x y)", "a in (-b,c-)", "a=" + strings.Repeat("v", 63), "a=" + strings.Repeat("v", 64),
	strings.Repeat("k", 63), strings.Repeat("k", 64), strings.Repeat("k", 64) + "-", strings.Repeat("p", 253) + "/a",
	strings.Repeat("p", 254) + "/a", "a in (" + strings.Repeat("v", 64) + ",-)",
}

var fieldTexts = []string{
	"", ",", ",,", "metadata.name=x", "metadata.name==x", "metadata.name!=x", "metadata.name=", "metadata.name!=", "spec.nodeName=",
	"spec.nodeName!=", "metadata.name=x,spec.nodeName!=,status.phase!=Succeeded", ",metadata.name=x,", "status.phase=Running,metadata.name=x",
	"metadata.name=x,metadata.name=x", "metadata.name=x,metadata.name=y", `metadata.name=a\,b\=c`, `status.phase=back\\slash`, "=", "!=", "==",
	"=x", "!=x", "metadata.name = x", " metadata.name=x", "metadata.name=x ", "unknown=1", "unknown!=1", "unknown=",
	"metadata.name!=x,spec.nodeName!=n1", "a!b=c", "a!=b!=c", "a=!b",
	"a", "a,b=c", "b=c,a", "a=b=c", "a==b=c", "a===b", `a=\x`, `a=b\`, `a\=b`, `a\,b=c`, `a=b\,`, "a>1", "é=ü",
}

var (
	keys      = []string{"a", "a", "c", "e", "f", "f", "in", "example.com/zone", "absent"}
	operators = []string{"In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
	values    = []string{"b", "x", "d", "y", "", "1", "5", "7", "007", "z1", "z2", "9223372036854775807"}
	integers  = []string{"0", "1", "5", "6", "007", "8", "9223372036854775806"}

	oddKeys      = []string{"a", "f", "", "-bad", "x/y/z"}
	oddOperators = []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "in", ""}
	oddValues    = []string{"b", "5", "-5", "no way", "9223372036854775808", "five"}

	fieldKeys  = []string{"metadata.name", "metadata.name", "metadata.name", "metadata.uid", ""}
	nodeNames  = []string{"n1", "n2", "n1", "N1", ""}
	tolOps     = []v1.TolerationOperator{"", "Equal", "Exists", "Lt", "Gt", "exists"}
	tolKeys    = []string{"", "k", "other"}
	tolValues  = []string{"", "5"}
	effects    = []v1.TaintEffect{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}
	taintValue = []string{"", "5", "7"}
)

func selectorSections() []section {
	random := rand.New(rand.NewSource(2))
	return []section{
		{"labelSets", anySlice(labelSets)},
		{"fieldSets", anySlice(fieldSets)},
		{"nodes", anySlice(nodes())},
		{"labelTexts", labelTextCases(random)},
		{"fieldTexts", fieldTextCases()},
		{"labelSelectors", labelSelectorCases(random)},
		{"nodeSelectors", nodeSelectorCases(random)},
		{"tolerations", tolerationCases()},
	}
}

// node is the part of a node that its selectors can see.
type node struct {
	Name   string     `json:"name"`
	Labels labels.Set `json:"labels"`
}

func nodes() []node {
	var all []node
	for i, set := range labelSets {
		all = append(all, node{[]string{"n1", "n2", ""}[i%3], set})
	}
	return all
}

func labelTextCases(random *rand.Rand) []any {
	texts := append([]string{}, labelTexts...)
	// Scrambled pieces of the grammar: most are refused, and how is part of the answer.
	pieces := []string{"a", "c", "f", "in", "notin", "=", "==", "!=", "!", "(", ")", ",", ",", "<", ">", "1", " ", "b", "x"}
	for range 120 {
		var text strings.Builder
		for range 1 + random.Intn(9) {
			text.WriteString(pieces[random.Intn(len(pieces))])
		}
		texts = append(texts, text.String())
	}
	var cases []any
	for _, text := range texts {
		selector, err := labels.Parse(text)
		cases = append(cases, answer(text, err, len(labelSets), func(i int) bool { return selector.Matches(labelSets[i]) }))
	}
	return cases
}

func fieldTextCases() []any {
	var cases []any
	for _, text := range fieldTexts {
		selector, err := fields.ParseSelector(text)
		cases = append(cases, answer(text, err, len(fieldSets), func(i int) bool { return selector.Matches(fieldSets[i]) }))
	}
	return cases
}

func labelSelectorCases(random *rand.Rand) []any {
	selectors := []*metav1.LabelSelector{
		nil,
		{},
		{MatchLabels: map[string]string{}, MatchExpressions: []metav1.LabelSelectorRequirement{}},
		{MatchLabels: map[string]string{"a": "b"}},
		{MatchLabels: map[string]string{"a": ""}},
		{MatchLabels: map[string]string{"a": "b", "c": "d"}},
		{MatchLabels: map[string]string{"a": "no way"}},
		{MatchLabels: map[string]string{"": "b"}},
	}
	for range 120 {
		selector := &metav1.LabelSelector{}
		if random.Intn(3) == 0 {
			selector.MatchLabels = map[string]string{pick(random, keys): pick(random, values)}
		}
		for range random.Intn(3) {
			key, operator, some := randomRequirement(random, operators[:6])
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: some,
			})
		}
		selectors = append(selectors, selector)
	}
	var cases []any
	for _, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		cases = append(cases, answer(s, err, len(labelSets), func(i int) bool { return selector.Matches(labelSets[i]) }))
	}
	return cases
}

func nodeSelectorCases(random *rand.Rand) []any {
	selectors := []*v1.NodeSelector{{}, {NodeSelectorTerms: []v1.NodeSelectorTerm{{}}}}
	for range 160 {
		selector := &v1.NodeSelector{}
		for range 1 + random.Intn(3) {
			var term v1.NodeSelectorTerm
			for range random.Intn(3) {
				key, operator, some := randomRequirement(random, operators)
				term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{
					Key: key, Operator: v1.NodeSelectorOperator(operator), Values: some,
				})
			}
			if random.Intn(3) == 0 {
				term.MatchFields = append(term.MatchFields, v1.NodeSelectorRequirement{
					Key: pick(random, fieldKeys), Operator: v1.NodeSelectorOperator(pick(random, operators[:5])), Values: pickSome(random, nodeNames, 2),
				})
			}
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term)
		}
		selectors = append(selectors, selector)
	}
	all := nodes()
	var cases []any
	for _, s := range selectors {
		// Invalid terms are not an error of the whole: the others still count.
		selector := nodeaffinity.NewLazyErrorNodeSelector(s)
		c := answer(s, nil, len(all), func(i int) bool {
			matched, _ := selector.Match(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: all[i].Name, Labels: all[i].Labels}})
			return matched
		})
		if _, err := nodeaffinity.NewNodeSelector(s); err != nil {
			c.Error = err.Error()
		}
		cases = append(cases, c)
	}
	return cases
}

func tolerationCases() []any {
	var cases []any
	for _, operator := range tolOps {
		for _, key := range tolKeys {
			for _, value := range tolValues {
				for _, effect := range effects {
					toleration := v1.Toleration{Key: key, Operator: operator, Value: value, Effect: effect}
					for _, taintEffect := range effects[1:2] {
						for _, taintValue := range taintValue {
							taint := v1.Taint{Key: "k", Value: taintValue, Effect: taintEffect}
							tolerates := toleration.ToleratesTaint(klog.Background(), &taint, false)
							cases = append(cases, tolerationCase{toleration, taint, tolerates})
						}
					}
				}
			}
		}
	}
	return cases
}

func answer(in any, err error, count int, matches func(int) bool) selectorCase {
	if err != nil {
		return selectorCase{In: in, Error: err.Error()}
	}
	var bits strings.Builder
	for i := range count {
		if matches(i) {
			bits.WriteByte('1')
		} else {
			bits.WriteByte('0')
		}
	}
	return selectorCase{In: in, Matches: bits.String()}
}

func pick(random *rand.Rand, from []string) string { return from[random.Intn(len(from))] }

// randomRequirement is valid four times out of five.
func randomRequirement(random *rand.Rand, operators []string) (key, operator string, some []string) {
	if random.Intn(5) == 0 {
		return pick(random, oddKeys), pick(random, oddOperators), pickSome(random, oddValues, 2)
	}
	key, operator = pick(random, keys), pick(random, operators)
	switch operator {
	case "In", "NotIn":
		some = append(pickSome(random, values, 3), pick(random, values))
	case "Gt", "Lt":
		some = []string{pick(random, integers)}
	}
	return key, operator, some
}

func pickSome(random *rand.Rand, from []string, most int) []string {
	var some []string
	for range []int{0, 1, 1, 1, most}[random.Intn(5)] {
		some = append(some, pick(random, from))
	}
	return some
}

func anySlice[T any](items []T) []any {
	var all []any
	for _, item := range items {
		all = append(all, item)
	}
	return all
}
