package sim

import (
	"context"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTraceOfEvents simulates jobs, makes a trace of the log of events, and simulates that under the
// same policies: every job must have the same GPUs at the same times, although the trace has only
// what was measured. Jobs that failed for good have other lengths, so none does.
func TestTraceOfEvents(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(9, 9))
	rigid, elastic := strings.Builder{}, strings.Builder{}
	rigid.WriteString("job_id,submit_s,duration_s,num_gpus,user,priority,share,gpu_type,estimate_s,name,model,memory_gib\n")
	elastic.WriteString("job_id,submit_s,duration_s,num_gpus,user,min_gpus,max_gpus,estimate_s\n")
	submit := 0.0
	for id := range 200 {
		submit += float64(random.IntN(150)) / 4
		length, gpus, share, kind := 1+random.IntN(600), 1+random.IntN(8), 1.0, []string{"", "", "A", "B"}[random.IntN(4)]
		if gpus == 1 && id%2 == 0 {
			share = 0.25
		}
		estimate := length/2 + random.IntN(length)
		fmt.Fprintf(&rigid, "%d,%v,%d.125,%d,u%d,%d,%v,%s,%d,\"the, %d\",m,1.5\n", 7*id, submit, length, gpus, id%3, random.IntN(3), share,
			kind, estimate, id)
		fmt.Fprintf(&elastic, "%d,%v,%d.125,%d,u%d,1,%d,%d\n", id, submit, length, gpus, id%3, 2*gpus, estimate)
	}
	first, second := file(t, dir, "rigid.csv", rigid.String()), file(t, dir, "elastic.csv", elastic.String())
	costs := file(t, dir, "costs.csv", "save_s,load_s\n3,5.5\n")
	nodes := file(t, dir, "nodes.csv", "time_s,node,event\n300,0,down\n500,1,drain\n700,0,up\n900,1,up\n")
	hardware := " --gpu-types A:3x4,B:2x8 --type-speeds A=1,B=1"
	for _, each := range []struct{ jobs, flags string }{
		{first, "fifo --ignore-priority" + hardware},
		{first, "fifo --backfill easy --ignore-priority" + hardware},
		{first, "fifo --backfill conservative --ignore-priority --job-mtbf 2000 --retries 50" + hardware},
		{first, "srtf --placement best-fit --ignore-priority --cost " + costs + hardware},
		{first, "las --quantum 30 --ignore-priority --node-events " + nodes + hardware},
		{first, "drf --node-mtbf 4000 --node-repair 200" + hardware},
		{first, "priority --preemptive-priority --cost " + costs + hardware},
		{second, "optimus --model linear --nodes 4 --gpus-per-node 4"},
	} {
		t.Run(strings.ReplaceAll(each.flags, dir, ""), func(t *testing.T) {
			log, again := filepath.Join(t.TempDir(), "events.jsonl.gz"), filepath.Join(t.TempDir(), "again.csv")
			run := func(jobs string, more ...string) [][]string {
				out := t.TempDir()
				line := strings.Fields("run --no-pictures --jobs " + jobs + " --out " + out + " --order " + each.flags)
				if text, err := say(context.Background(), append(line, more...)...); err != nil {
					t.Fatal(text, err)
				}
				return rows(t, filepath.Join(out, "jobs.csv"))
			}
			want := run(each.jobs, "--events", log)
			if text, err := say(context.Background(), "trace", "--events", log, "--out", again); err != nil {
				t.Fatal(text, err)
			}
			got := run(again)
			if len(got) != 201 || !slices.Equal(got[0], want[0]) {
				t.Fatalf("%d rows, %v", len(got), got[0])
			}
			for i := range got[1:] {
				for k, column := range got[0] {
					if a, b := got[i+1][k], want[i+1][k]; a != b && !(strings.HasPrefix(each.flags, "optimus") && same(a, b)) {
						t.Fatalf("job %s: %s is %q, was %q", got[i+1][0], column, a, b)
					}
				}
			}
		})
	}
}

// rows reads a CSV file.
func rows(t *testing.T, path string) [][]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
