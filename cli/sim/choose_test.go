package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChoicesAreLogged: the log of order synthesizer says which policy decides, first of all, and
// again whenever another one does.
func TestChoicesAreLogged(t *testing.T) {
	dir := t.TempDir()
	jobs, log := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "events.jsonl")
	for _, line := range []string{
		"generate --nodes 2 --gpus-per-node 4 --load 1.2 --count 60 --sizes 1:60,4:30,8:10 --lengths exponential:2h" +
			" --out " + jobs,
		"run --jobs " + jobs + " --nodes 2 --gpus-per-node 4 --order synthesizer --choose-every 3600 --events " + log,
		"check --events " + log,
	} {
		if _, err := say(t.Context(), strings.Fields(line)...); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines, chosen := strings.Split(string(text), "\n"), ""
	choices := 0
	for i, line := range lines {
		_, name, ok := strings.Cut(line, `"event":"choose","detail":"`)
		if !ok {
			continue
		}
		choices++
		if name == chosen || choices == 1 && i != 1 {
			t.Errorf("line %d: %s", i+1, line)
		}
		chosen = name
	}
	if choices < 2 {
		t.Errorf("%d choices", choices)
	}
}
