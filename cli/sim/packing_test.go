package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPackingByDefault: under each model optimus packs by default where that wins. No trace's mean
// JCT is worse by more than a few percent than with the other choice, and on average the default is
// no worse.
func TestPackingByDefault(t *testing.T) {
	for _, model := range []string{"common", "linear", "placed", "own"} {
		packs := model != "common" && model != "linear"
		var usual, other float64
		for seed := range uint64(4) {
			jobs := file(t, t.TempDir(), "jobs.csv", packingJobs(seed))
			line := fmt.Sprintf(
				"run --json --order optimus --nodes 6 --gpus-per-node 4 --restart-cost 30 --model %s --jobs %s", model, jobs,
			)
			mine := meanJCT(t, line)
			if same := meanJCT(t, fmt.Sprintf("%s --pack=%t", line, packs)); same != mine {
				t.Fatalf("%s: the default is not --pack=%t", model, packs)
			}
			theirs := meanJCT(t, fmt.Sprintf("%s --pack=%t", line, !packs))
			if mine > 1.05*theirs {
				t.Errorf("%s, seed %d: mean JCT is %.0f s, and %.0f s with --pack=%t", model, seed, mine, theirs, !packs)
			}
			usual, other = usual+mine, other+theirs
		}
		if usual > 1.001*other {
			t.Errorf("%s: %.0f s by default, else %.0f s", model, usual/4, other/4)
		}
	}
}

// packingJobs returns elastic jobs of several models.
func packingJobs(seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 9))
	var text strings.Builder
	text.WriteString("job_id,submit_s,duration_s,num_gpus,model,min_gpus,max_gpus\n")
	models := []string{"resnet50", "bert", "vgg16", "deepspeech2"}
	at := 0
	for i := range 80 {
		at += random.IntN(2400)
		gpus := []int{1, 1, 2, 3, 4, 6}[random.IntN(6)]
		fmt.Fprintf(&text, "%d,%d,%d,%d,%s", i, at, 600+random.IntN(20_000), gpus, models[random.IntN(len(models))])
		fmt.Fprintf(&text, ",1,%d\n", 2*gpus)
	}
	return text.String()
}

// meanJCT runs a simulation that prints JSON.
func meanJCT(t *testing.T, line string) float64 {
	t.Helper()
	out, err := say(t.Context(), strings.Fields(line)...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	var summary struct {
		Mean float64 `json:"avg_jct_s"`
	}
	if err := json.Unmarshal([]byte(out), &summary); err != nil {
		t.Fatal(err)
	}
	return summary.Mean
}
