// Command reference asks the real Kubernetes libraries what quantities, selectors, tolerations,
// protobuf and extender bodies mean, and prints the answers as JSON. Tests compare Stowplan with them.
//
//	go run . quantities > ../../tests/data/quantity_reference.json
//	go run . selectors  > ../../tests/data/selector_reference.json
//	go run . protobuf   > ../../tests/data/protobuf_reference.json
//	go run . extender   > ../../tests/data/extender_reference.json
//
// The same program always prints the same bytes: its random cases come from a fixed seed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fail("usage: reference quantities|selectors|protobuf|extender")
	}
	switch os.Args[1] {
	case "quantities":
		write([]section{{"quantities", quantityCases()}})
	case "selectors":
		write(selectorSections())
	case "protobuf":
		write([]section{{"objects", protobufCases()}})
	case "extender":
		write([]section{{"bodies", extenderCases()}})
	default:
		fail(fmt.Sprintf("unknown table %q: use quantities, selectors, protobuf or extender", os.Args[1]))
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}

// section is one named list of the output.
type section struct {
	name  string
	cases []any
}

// write prints one case a line, so that a change of one case is a change of one line.
func write(sections []section) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprint(out, "{")
	for i, s := range sections {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%q: [", s.name)
		for j, c := range s.cases {
			if j > 0 {
				fmt.Fprint(out, ",")
			}
			line, err := json.Marshal(c)
			if err != nil {
				fail(err.Error())
			}
			fmt.Fprintf(out, "\n%s", line)
		}
		fmt.Fprint(out, "\n]")
	}
	fmt.Fprint(out, "\n}\n")
}
