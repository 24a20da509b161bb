// Command cel says what a DRA selector means: it compiles expressions in the environment that
// kube-scheduler evaluates them in, and evaluates them on devices.
//
// It reads one request a line from stdin, an expression and devices as JSON, and writes one answer
// a line to stdout. The value of an expression may be of any type, so that the language can be
// compared beyond the selectors that an API server would accept.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	resourceapi "k8s.io/api/resource/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type request struct {
	Expression string   `json:"expression"`
	Devices    []device `json:"devices"`
}

type device struct {
	Driver     string                                                    `json:"driver"`
	Multiple   *bool                                                     `json:"allowMultipleAllocations"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type answer struct {
	// Refused is the error of the compiler as a selector; CompileError that of the language alone.
	Refused      string `json:"refused,omitempty"`
	CompileError string `json:"compileError,omitempty"`
	Type         string `json:"type,omitempty"`
	// MaxCost is the estimate by which an API server admits a selector.
	MaxCost uint64    `json:"maxCost,omitempty"`
	Results []outcome `json:"results,omitempty"`
}

type outcome struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error,omitempty"`
	Cost    uint64 `json:"cost"`
	Value   any    `json:"value,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true})
	// Its environment is the one that selectors get.
	environment := compiler.CompileCELExpression("true", dracel.Options{DisableCostEstimation: true}).Environment
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			var asked request
			if err := json.Unmarshal(line, &asked); err != nil {
				return fmt.Errorf("request: %w", err)
			}
			text, err := json.Marshal(respond(compiler, environment, asked))
			if err != nil {
				return err
			}
			writer.Write(append(text, '\n'))
			if err := writer.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type selectors interface {
	CompileCELExpression(expression string, options dracel.Options) dracel.CompilationResult
}

func respond(compiler selectors, environment *cel.Env, asked request) answer {
	result := answer{}
	selector := compiler.CompileCELExpression(asked.Expression, dracel.Options{})
	if selector.Error != nil {
		result.Refused = selector.Error.Error()
	} else {
		result.MaxCost = selector.MaxCost
	}
	ast, issues := environment.Compile(asked.Expression)
	if issues != nil && issues.Err() != nil {
		result.CompileError = issues.String()
		return result
	}
	result.Type = ast.OutputType().String()
	if selector.Error == nil {
		for _, one := range asked.Devices {
			result.Results = append(result.Results, match(selector, one))
		}
		return result
	}
	program, err := environment.Program(ast, cel.CostLimit(resourceapi.CELSelectorExpressionMaxCost))
	if err != nil {
		result.CompileError = err.Error()
		return result
	}
	// Not a selector: the devices cannot be given to it, so it must do without.
	value, details, err := program.Eval(map[string]any{})
	one := outcome{}
	if details != nil && details.ActualCost() != nil {
		one.Cost = *details.ActualCost()
	}
	if err != nil {
		one.Error = err.Error()
	} else {
		one.Value = describe(value)
	}
	result.Results = append(result.Results, one)
	return result
}

func match(selector dracel.CompilationResult, one device) outcome {
	matches, details, err := selector.DeviceMatches(context.Background(), dracel.Device{
		Driver: one.Driver, AllowMultipleAllocations: one.Multiple,
		Attributes: one.Attributes, Capacity: one.Capacity,
	})
	result := outcome{Matches: matches}
	if details != nil && details.ActualCost() != nil {
		result.Cost = *details.ActualCost()
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

// describe writes a value with its type, numbers as text, so that JSON keeps both.
func describe(value ref.Val) any {
	switch v := value.(type) {
	case types.Bool:
		return bool(v)
	case types.Null:
		return nil
	case types.Int:
		return map[string]any{"int": strconv.FormatInt(int64(v), 10)}
	case types.Uint:
		return map[string]any{"uint": strconv.FormatUint(uint64(v), 10)}
	case types.Double:
		return map[string]any{"double": strconv.FormatFloat(float64(v), 'g', -1, 64)}
	case types.String:
		return map[string]any{"string": string(v)}
	case types.Bytes:
		return map[string]any{"bytes": base64.StdEncoding.EncodeToString(v)}
	case types.Timestamp:
		return map[string]any{"timestamp": v.Time.UTC().Format(time.RFC3339Nano)}
	case types.Duration:
		return map[string]any{"duration": strconv.FormatInt(int64(v.Duration), 10)}
	case *types.Type:
		return map[string]any{"type": v.TypeName()}
	case *types.Optional:
		if !v.HasValue() {
			return map[string]any{"optional": []any{}}
		}
		return map[string]any{"optional": []any{describe(v.GetValue())}}
	case apiservercel.Quantity:
		return map[string]any{"quantity": v.Quantity.String()}
	case apiservercel.Semver:
		return map[string]any{"semver": v.Version.String()}
	case traits.Lister:
		items := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			items = append(items, describe(it.Next()))
		}
		return map[string]any{"list": items}
	case traits.Mapper:
		entries := [][2]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, [2]any{describe(key), describe(v.Get(key))})
		}
		sort.Slice(entries, func(i, j int) bool {
			return fmt.Sprint(entries[i][0]) < fmt.Sprint(entries[j][0])
		})
		return map[string]any{"map": entries}
	}
	return map[string]any{"other": fmt.Sprintf("%s %v", value.Type().TypeName(), value.Value())}
}
