package template_test

import (
	"context"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/template"
)

// The best cuts of six layers, for all sizes of pipelines that five nodes and one failure require.
func ExampleSearch() {
	var layers []pipeline.Layer
	for i, ms := range []time.Duration{4, 1, 1, 2, 2, 3} {
		layers = append(layers, pipeline.Layer{
			Name: fmt.Sprint("layer ", i), Forward: ms * time.Millisecond, Backward: 2 * ms * time.Millisecond,
		})
	}
	profile, err := pipeline.NewProfile(layers)
	if err != nil {
		fmt.Println(err)
		return
	}
	search := template.Search{Profile: profile, GPUsPerNode: 1}
	smallest, largest, err := search.Sizes(context.Background(), 5, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	templates, err := search.Templates(context.Background(), smallest, largest)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range templates {
		fmt.Printf("%d nodes: cuts %v, %s ms per iteration\n", t.Nodes, t.Cuts(), pipeline.Milliseconds(t.Time()))
	}
	// Output:
	// 1 nodes: cuts [0 6], 156 ms per iteration
	// 2 nodes: cuts [0 3 6], 186 ms per iteration
	// 3 nodes: cuts [0 2 5 6], 198 ms per iteration
	// 4 nodes: cuts [0 1 4 5 6], 210 ms per iteration
}
