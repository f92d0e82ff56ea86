package compat_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/compat"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// table reads a CSV file of testdata by column names.
func table(t *testing.T, name string) []map[string]string {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, value := range line {
			row[lines[0][i]] = value
		}
		rows = append(rows, row)
	}
	return rows
}

// seconds parses times as the originals do.
func seconds(t *testing.T, text string) time.Duration {
	t.Helper()
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(value * float64(time.Second))
}

func trace(t *testing.T, name, submit string) (jobs []cluster.Job) {
	for _, row := range table(t, name) {
		id, _ := strconv.Atoi(row["job_id"])
		gpus, _ := strconv.Atoi(row["num_gpus"])
		jobs = append(
			jobs,
			cluster.Job{
				ID:     cluster.JobID(id),
				Submit: seconds(t, row[submit]),
				Length: seconds(t, row["duration_s"]),
				GPUs:   gpus,
			},
		)
	}
	return jobs
}

func nodes(n, gpus int) (all []cluster.Node) {
	for i := range n {
		all = append(all, cluster.Node{ID: cluster.NodeID(i), GPUs: gpus})
	}
	return all
}

// TestReferences compares both profiles with the originals' results for every job: what the
// programs answered on the two traces of testdata. Tiresias is commit 959f9b0 of its repository, by
// Python 2.7, on a cluster of 15 nodes of 4 GPUs whose GPUs are counted; its orders shortest and
// shortest-gpu are srtf and srsf here, and the queues of dlas stand in its source. The figures of
// the Blox paper need the Philly trace, whose repository has a pointer to the file instead of the
// file.
func TestReferences(t *testing.T) {
	blox, tiresias := trace(t, "s128_load7.csv", "arrival_s"), trace(t, "synth300_mgpu.csv", "submit_s")
	three, two := []time.Duration{3250 * time.Second, 7200 * time.Second}, []time.Duration{57600 * time.Second}
	for _, test := range []struct {
		profile, order, want, start string
		jobs                        []cluster.Job
		options                     compat.Options
		meanJCT                     string
		preemptions                 int
	}{
		{
			"blox", "fifo", "blox_s128_load7_fifo.csv", "first_metric_s", blox,
			compat.Options{Nodes: nodes(32, 4), Track: sim.Track{Lo: 1000, Hi: 1301}},
			"54925.983", 0,
		},
		{
			"blox", "las", "blox_s128_load7_las.csv", "first_metric_s", blox,
			compat.Options{Nodes: nodes(32, 4), Track: sim.Track{Lo: 1000, Hi: 1301}},
			"58641.598", 1310,
		},
		{
			"tiresias", "fifo", "tiresias_synth300_mgpu_fifo.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4)},
			"4544.260", 0,
		},
		{
			"tiresias", "fjf", "tiresias_synth300_mgpu_fjf.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4)},
			"4324.533", 0,
		},
		{
			"tiresias", "sjf", "tiresias_synth300_mgpu_sjf.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4)},
			"4320.640", -1,
		},
		{
			"tiresias", "srtf", "tiresias_synth300_mgpu_srtf.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4)},
			"4307.317", -1,
		},
		{
			"tiresias", "srsf", "tiresias_synth300_mgpu_srsf.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4)},
			"4232.413", -1,
		},
		{
			"tiresias", "dlas", "tiresias_synth300_mgpu_dlas.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4), Limits: three},
			"4281.283", -1,
		},
		{
			"tiresias", "dlas", "tiresias_synth300_mgpu_dlas_57600.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4), Limits: two},
			"4324.533", -1,
		},
		{
			"tiresias", "dlas-gpu", "tiresias_synth300_mgpu_dlas-gpu.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4), Limits: three},
			"4344.293", -1,
		},
		{
			"tiresias", "dlas-gpu", "tiresias_synth300_mgpu_dlas-gpu_57600.csv", "start_s", tiresias,
			compat.Options{Nodes: nodes(15, 4), Limits: two},
			"4297.317", -1,
		},
	} {
		t.Run(test.want, func(t *testing.T) {
			test.options.Order = test.order
			got, err := compat.Run(context.Background(), test.profile, test.jobs, test.options)
			if err != nil {
				t.Fatal(err)
			}
			want := table(t, test.want)
			if got.Jobs.Len() != len(want) {
				t.Fatalf("%d jobs, want %d", got.Jobs.Len(), len(want))
			}
			for i, row := range want {
				j := got.Jobs.At(i)
				if fmt.Sprint(j.ID) != row["job_id"] || j.Start != seconds(t, row[test.start]) ||
					j.Finish != seconds(t, row["finish_s"]) ||
					j.Outcome != sim.Done {
					t.Errorf(
						"job %d from %s to %s, want job %s from %s to %s",
						j.ID,
						j.Start,
						j.Finish,
						row["job_id"],
						row[test.start],
						row["finish_s"],
					)
				}
				if count, told := row["preempt"]; told && fmt.Sprint(j.Preemptions) != count {
					t.Errorf("job %d was preempted %d times, want %s", j.ID, j.Preemptions, count)
				}
			}
			if mean := fmt.Sprintf("%.3f", got.Summary.AvgJCT); mean != test.meanJCT {
				t.Errorf("mean JCT %s, want %s", mean, test.meanJCT)
			}
			if test.preemptions >= 0 && got.Summary.Preemptions != test.preemptions {
				t.Errorf("%d preemptions, want %d", got.Summary.Preemptions, test.preemptions)
			}
		})
	}
}
