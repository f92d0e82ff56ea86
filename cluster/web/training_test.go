package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/pipeline/progress/progresstest"
)

// TestTraining: the page gets the stages of a training, and the passes of an iteration of the
// slowest pipeline unless a program has made up more than can be drawn.
func TestTraining(t *testing.T) {
	s := newSite(t)
	id := s.cluster.Add(&api.Launch{Name: "train", Phase: "running"}).GetId()
	path := "/api/launches/" + id + "/training"
	if got := s.ask("GET", path, ""); got.code != 200 || strings.TrimSpace(got.body) != "null" {
		t.Errorf("a launch that does not train: %d %s", got.code, got.body)
	}
	s.cluster.Train(id, progresstest.Status(t, "gpu-", 24))
	var got training
	s.get(path, &got)
	ranks, microbatches := map[int]bool{}, 0
	for _, each := range got.Pipelines {
		microbatches += each.Microbatches
		next := 0
		for _, stage := range each.Stages {
			ranks[stage.Rank] = true
			if stage.First != next {
				t.Errorf("a stage begins with layer %d, after %d", stage.First, next-1)
			}
			next = stage.Last + 1
		}
		if next != 12 {
			t.Errorf("a pipeline ends with layer %d", next-1)
		}
	}
	if len(ranks)+len(got.Spare) != 6 || ranks[2] || microbatches != 24 || got.Step != 120 || len(got.Events) != 1 {
		t.Errorf("got %+v", got)
	}
	slowest := got.Pipelines[got.Slowest]
	if want := 2 * len(slowest.Stages) * slowest.Microbatches; len(got.Passes) != want {
		t.Errorf("%d passes, want %d", len(got.Passes), want)
	}
	s.cluster.Train(id, progresstest.Status(t, "gpu-", 1<<20))
	s.get(path, &got)
	if len(got.Passes) != 0 {
		t.Errorf("%d passes are drawn", len(got.Passes))
	}
	for _, bad := range []string{"", "[", "{}", `{"plan": {}}`, `{"plan": null}`, strings.Replace(string(progresstest.Status(t, "", 8)), `"nodes":[0,1,3,4,5,6]`, `"nodes":[0]`, 1)} {
		s.cluster.Train(id, []byte(bad))
		if got := s.ask("GET", path, ""); got.code != 200 || strings.TrimSpace(got.body) != "null" {
			t.Errorf("%.60q: %d %s", bad, got.code, got.body)
		}
	}
}

// TestReadsAll: numbers that are none, and fields that a newer program sends, do no harm.
func TestReadsAll(t *testing.T) {
	var said map[string]any
	if err := json.Unmarshal(progresstest.Status(t, "", 8), &said); err != nil {
		t.Fatal(err)
	}
	said["loss"], said["new"] = nil, []int{1}
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	id := s.cluster.Add(&api.Launch{Name: "train", Phase: "running"}).GetId()
	s.cluster.Train(id, text)
	var got training
	s.get("/api/launches/"+id+"/training", &got)
	if got.Loss != nil || got.Steps != 500 {
		t.Errorf("got %+v", got)
	}
}
