// Copied into upstream's package incubating by python -m tools.device_tables, as a test file.
package incubating

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
)

type recorder struct {
	*Allocator
	state   AllocatedState
	classes DeviceClassLister
	slices  []*resourceapi.ResourceSlice
}

var out *os.File

func (r recorder) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	result, err := r.Allocator.Allocate(ctx, node, claims)
	text := ""
	if err != nil {
		text = err.Error()
	}
	classes, _ := r.classes.List()
	devices := [][3]string{}
	for id := range r.state.AllocatedDevices {
		devices = append(devices, [3]string{id.Driver.String(), id.Pool.String(), id.Device.String()})
	}
	capacity := []any{}
	for id, c := range r.state.AggregatedCapacity {
		m := map[string]string{}
		for k, v := range c {
			m[string(k)] = v.String()
		}
		capacity = append(capacity, []any{id.Driver.String(), id.Pool.String(), id.Device.String(), m})
	}
	shared := [][3]string{}
	for id := range r.state.AllocatedSharedDeviceIDs {
		shared = append(shared, [3]string{id.Driver.String(), id.Pool.String(), id.Device.String()})
	}
	line, _ := json.Marshal(map[string]any{
		"node": map[string]any{"metadata": node.ObjectMeta}, "claims": claims, "slices": r.slices, "classes": classes,
		"allocated": devices, "shared": shared, "capacity": capacity, "result": result, "error": text,
	})
	out.Write(append(line, '\n'))
	return result, err
}

func TestRecord(t *testing.T) {
	out, _ = os.Create(os.Getenv("DUMP"))
	newAllocator := func(
		ctx context.Context,
		_ Features,
		allocatedState AllocatedState,
		classLister DeviceClassLister,
		slices []*resourceapi.ResourceSlice,
		celCache *cel.Cache,
	) (internal.Allocator, error) {
		a, err := NewAllocator(ctx, SupportedFeatures, allocatedState, classLister, slices, cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}))
		return recorder{a, allocatedState, classLister, slices}, err
	}
	allocatortesting.TestAllocator(t, SupportedFeatures, newAllocator)
	allocatortesting.TestLexicographicalAllocator(t, SupportedFeatures, newAllocator)
}
