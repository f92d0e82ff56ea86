package progress_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/progress"
	"github.com/phos-gpu/phos/cluster/pipeline/progress/progresstest"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

func read(t *testing.T, text []byte) *progress.Status {
	t.Helper()
	s, err := progress.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCopies: each layer has as many copies as there are pipelines, on ranks whose stages have it.
func TestCopies(t *testing.T) {
	s := read(t, progresstest.Status(t, "n", 24))
	next := 0
	for _, each := range s.Copies() {
		if each.First != next || len(each.Ranks) != len(s.Plan.Pipelines) {
			t.Errorf("layers %d to %d are on %v, of %d pipelines", each.First, each.Last, each.Ranks, len(s.Plan.Pipelines))
		}
		next = each.Last + 1
		for _, rank := range each.Ranks {
			node := cluster.NodeID(slices.Index(s.Nodes, rank))
			at, ok := s.Plan.Find(node)
			if !ok || !slices.ContainsFunc(s.Plan.Template(s.Plan.Pipelines[at].Template).Stages, func(stage pipeline.Stage) bool {
				return s.Plan.Pipelines[at].Nodes[stage.Node] == node && stage.From <= each.First && each.Last < stage.To
			}) {
				t.Errorf("rank %d has no stage with layers %d to %d", rank, each.First, each.Last)
			}
		}
	}
	if next != s.Plan.Profile.Len() {
		t.Errorf("%d layers of %d are there", next, s.Plan.Profile.Len())
	}
}

// TestNext: the loss of a rank costs as many faults as ranks are missing for all copies, and none
// whose layers another rank has ends the training.
func TestNext(t *testing.T) {
	s := read(t, progresstest.Status(t, "n", 24))
	losses, err := s.Next()
	if err != nil || len(losses) != 6 { // each rank has a machine of its own
		t.Fatal(len(losses), err)
	}
	for _, each := range losses {
		if each.Problem != "" || len(each.Layers) != 0 || each.IterationNS < s.Plan.IterationTime() {
			t.Errorf("got %+v, and now an iteration takes %d ns", each, s.Plan.IterationTime())
		}
	}
	one := read(t, progresstest.Status(t, "n", 24))
	one.Plan.Pipelines = one.Plan.Pipelines[:1] // as after losses: no other pipeline has its layers
	losses, err = one.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range losses {
		inPipeline := slices.Contains(one.Plan.Pipelines[0].Nodes, cluster.NodeID(slices.Index(one.Nodes, each.Ranks[0])))
		if inPipeline != (len(each.Layers) > 0 || each.Problem != "") {
			t.Errorf("the last pipeline loses rank %d (%v): %+v", each.Ranks[0], inPipeline, each)
		}
	}
}

// TestMachine: the loss of a machine is the loss of all its ranks at once.
func TestMachine(t *testing.T) {
	s := read(t, progresstest.Status(t, "n", 24))
	layer, host := s.Copies()[0], ""
	for i := range s.Ranks {
		if slices.Contains(layer.Ranks, s.Ranks[i].Rank) { // all copies of the first layers
			s.Ranks[i].Host = "together"
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	s = read(t, text)
	losses, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range losses {
		if each.Host == "" {
			continue
		}
		host = each.Host
		if !slices.Equal(slices.Sorted(slices.Values(each.Ranks)), slices.Sorted(slices.Values(layer.Ranks))) ||
			len(each.Layers) == 0 && each.Problem == "" {
			t.Errorf("ranks %v have all of layer %d: %+v", layer.Ranks, layer.First, each)
		}
	}
	if host != "together" || len(losses) != 7 {
		t.Errorf("got %+v", losses)
	}
}

// TestRefused: what no training says is refused, and named.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "not understood",
		`{"step": "one"}`:           "not understood",
		`{"plan": {"spec": {}}}`:    "the plan of the training",
		`{"events": [{"lost": 3}]}`: "not understood",
		strings.Replace(string(progresstest.Status(t, "", 8)), `"nodes":[0,1,3,4,5,6]`, `"nodes":[]`, 1): "which rank is node",
		`{"ranks": [` + strings.Repeat("{},", 5000) + `{}]}`:                                             "too much to show",
		`{"events": [` + strings.Repeat("{},", 500) + `{}]}`:                                             "too much to show",
	} {
		if _, err := progress.Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q gives %v, want %q", text, err, want)
		}
	}
}

// TestWhy: an event says what another way to go on would have given, if that is not the same.
func TestWhy(t *testing.T) {
	s := read(t, progresstest.Status(t, "n", 24))
	if got := s.Events[0].Text(); !strings.Contains(got, "balance was chosen: 1490.5 iterations are predicted until the next change, 1207.2 with recover") {
		t.Error(got)
	}
	s.Events[0].Ways[1].Iterations = s.Events[0].Ways[0].Iterations
	if got := s.Events[0].Text(); strings.Contains(got, "balance") {
		t.Error(got)
	}
}
