package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesAreKept: in logs of conservative backfilling, in rounds or not, no job starts later
// than promised, and sim check refuses a log in which one does.
func TestPromisesAreKept(t *testing.T) {
	dir := t.TempDir()
	jobs, log := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "events.jsonl")
	promises := 0
	for seed := range 2 {
		line := fmt.Sprintf(
			"generate --nodes 6 --gpus-per-node 4 --load 1.1 --count 200 --sizes 1:50,2:20,4:20,8:10 --seed %d --out %s", seed, jobs,
		)
		if _, err := say(t.Context(), strings.Fields(line)...); err != nil {
			t.Fatal(err)
		}
		overestimate(t, jobs, seed)
		for _, flags := range []string{
			"", "--round 300", "--round 77.7 --order sjf", "--round 600 --backfill conservative:4",
			"--order sjf --age 40000", "--round 60 --job-mtbf 90000 --node-mtbf 900000 --node-repair 4000",
			"--round 300 --restart-cost 60 --job-mtbf 90000",
		} {
			line := "run --nodes 6 --gpus-per-node 4 --backfill conservative --jobs " + jobs
			line += " --events " + log + " " + flags
			if _, err := say(t.Context(), strings.Fields(line)...); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if _, err := say(t.Context(), "check", "--events", log); err != nil {
				t.Errorf("seed %d %s: %v", seed, flags, err)
			}
			promises += breakPromise(t, log)
		}
	}
	if promises < 500 {
		t.Errorf("only %d promises were made", promises)
	}
}

// overestimate gives each job an estimate that is one to four times as long as it runs.
func overestimate(t *testing.T, path string, seed int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := range lines {
		if i == 0 {
			lines[i] += ",estimate_s"
			continue
		}
		var seconds float64
		if _, err := fmt.Sscan(strings.Split(lines[i], ",")[2], &seconds); err != nil {
			t.Fatal(err)
		}
		lines[i] += fmt.Sprintf(",%.3f", seconds*(1+float64((i*7+seed)%31)/10))
	}
	file(t, filepath.Dir(path), filepath.Base(path), strings.Join(lines, "\n")+"\n")
}

// breakPromise lets the log promise a job a start that is too early, and checks that it is refused.
// It returns how many promises there are.
func breakPromise(t *testing.T, log string) int {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	promise := regexp.MustCompile(`(?m)^.*"event":"promise","job":(\d+),.*$`)
	all := promise.FindAllStringSubmatchIndex(string(text), -1)
	if strings.Contains(string(text), `"event":"fail"`) || len(all) == 0 {
		return len(all)
	}
	last := all[len(all)-1]
	var job, at, start float64
	line := string(text)[last[0]:last[1]]
	const form = `{"time_s":%g,"event":"promise","job":%g,"start_s":%g}`
	if _, err := fmt.Sscanf(line, form, &at, &job, &start); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	now := between(line, `"time_s":`)
	tampered := fmt.Sprintf(`{"time_s":%s,"event":"promise","job":%.0f,"start_s":%s}`, now, job, now)
	if at == start {
		return len(all)
	}
	changed := string(text)[:last[0]] + tampered + string(text)[last[1]:]
	path := file(t, filepath.Dir(log), "tampered.jsonl", changed)
	_, err = say(t.Context(), "check", "--events", path)
	if err == nil || !strings.Contains(err.Error(), "it was promised") {
		t.Errorf("a promise of %s for %s: got %v", line, tampered, err)
	}
	return len(all)
}

// between returns the number behind a key.
func between(line, key string) string {
	_, rest, _ := strings.Cut(line, key)
	return rest[:strings.IndexAny(rest, ",}")]
}
