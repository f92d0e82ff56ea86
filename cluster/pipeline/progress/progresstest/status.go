// Package progresstest makes up what a training says of itself, for tests of what shows it. Tested
// by tests/page.
package progresstest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
)

// Status returns what a training of seven ranks would say, of which rank 2 was lost. Its hosts and
// reasons have a name in them.
func Status(t *testing.T, name string, microbatches int) []byte {
	t.Helper()
	const layers, ranks = 12, 7
	var all []pipeline.Layer
	for i := range layers {
		all = append(all, pipeline.Layer{
			Name: name, Forward: time.Duration(1+i%3) * time.Millisecond, Backward: time.Duration(2+i%2) * time.Millisecond,
			StateBytes: 1 << 20, ActivationBytes: 1 << 10,
		})
	}
	profile, err := pipeline.NewProfile(all)
	if err != nil {
		t.Fatal(err)
	}
	spec := pipeline.Spec{Nodes: ranks - 1, GPUsPerNode: 1, GPUMemoryBytes: 5 << 20, Faults: 1, Microbatches: microbatches}
	plan, err := instance.Make(t.Context(), profile, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := plan.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	var where []map[string]any
	nodes := []int{0, 1, 3, 4, 5, 6}
	for _, rank := range nodes {
		where = append(where, map[string]any{
			"rank": rank, "host": fmt.Sprintf("%s%d", name, rank), "pid": 1000 + rank, "replica": fmt.Sprintf("main.%d", rank),
			"computing": 0.05 * float64(rank),
		})
	}
	said, err := json.Marshal(map[string]any{
		"rank": 0, "step": 120, "steps": 500, "loss": 1.25, "norm": 0.5, "seconds": 0.42, "faults": 1, "ranks": where,
		"nodes": nodes, "plan": json.RawMessage(text), "events": []any{map[string]any{
			"at": float64(time.Now().Unix()), "step": 40, "seconds": 0.2, "bytes": 3 << 20, "microbatches": 3,
			"lost": []any{[]any{2, "its connection ended: " + name}}, "joined": []int{}, "left": []int{}, "iteration_ms": 40,
			"ways": []any{
				map[string]any{"way": "balance", "iterations": 1490.5}, map[string]any{"way": "recover", "iterations": 1207.25},
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return said
}
