package sim

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 300 * time.Second: "300", 1500 * time.Millisecond: "1.5", time.Second + 1: "1.000000001",
		-1500 * time.Millisecond: "-1.5",
		35424347198087:           "35424.347198087", 10: "0.00000001",
	} {
		if got := Seconds(d); got != want {
			t.Errorf("%d ns are %q s, want %q", d, got, want)
		}
	}
}

// moreColumns are the columns behind name.
const moreColumns = "user,class,priority,gpus,outcome,start_delay_s,wait_s,run_s,slowdown,bounded_slowdown," +
	"finish_time_fairness,gpu_s_requested,gpu_s,runs,migrations,resizes,restarts,placement\n"

// TestRecorder follows two jobs on one node of two GPUs by hand.
func TestRecorder(t *testing.T) {
	const s = time.Second
	jobs := []cluster.Job{
		{ID: 7, Submit: 2 * s, GPUs: 2},
		{ID: 3, Submit: 0, GPUs: 1, Name: `a "b", c`},
		{ID: 9, Submit: 8 * s, GPUs: 1},
	}
	r := NewRecorder(packed.Of(jobs...), []cluster.Node{{GPUs: 2}}, Track{Lo: 3, Hi: 9})
	at := func(at time.Duration, running, waiting int, busy int64) {
		r.Sample(Sample{At: at, Running: running, Waiting: waiting, BusyMilli: busy * cluster.WholeGPU, Capacity: 2})
	}
	r.Started(1, 0)
	r.Ran(1, 0, cluster.Placement{{Node: 0, Index: 0}})
	at(0, 1, 0, 1)
	r.Preempted(1, 2*s)
	r.Started(0, 2*s)
	r.Ran(0, 2*s, cluster.Placement{{Node: 0, Index: 0}, {Node: 0, Index: 1}})
	at(2*s, 1, 1, 2)
	r.Finished(0, 6*s, Done)
	r.Ran(1, 6*s, cluster.Placement{{Node: 0, Index: 1}})
	r.Started(1, 6*s)
	at(6*s, 1, 0, 1)
	r.Finished(1, 8*s, Done)
	if r.Left() != 0 || r.Ended() != 2 {
		t.Errorf("%d left, %d ended", r.Left(), r.Ended())
	}
	got := r.Result(8*s, false)
	var text strings.Builder
	if err := got.JobsCSV(&text); err != nil {
		t.Fatal(err)
	}
	if want := "job_id,submit_s,start_s,finish_s,preemptions,name," + moreColumns +
		"3,0,0,8,1,\"a \"\"b\"\", c\",,small-short,0,1,done,0,4,4,,1,,0,4,2,1,0,0,0:1\n" +
		"7,2,2,6,0,,,small-short,0,2,done,0,0,4,,1,,0,8,1,0,0,0,0:0-1\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
	// 1 GPU for 2 s, 2 for 4, 1 for 2: 12 of 16 GPU-seconds.
	want := Summary{
		N:                  2,
		AvgJCT:             6,
		MedianJCT:          6,
		P99JCT:             7.96,
		Makespan:           8,
		Preemptions:        1,
		TrackedPreemptions: 1,
		GPUUtilisation:     0.75,
	}
	got.Summary.Figures = nil // see TestFigures
	if got.Summary != want {
		t.Errorf("%+v, want %+v", got.Summary, want)
	}
	if len(got.Runs) != 3 || got.Runs[0].To != 2*s || !got.Runs[0].Preempted || got.Runs[2].To != 8*s {
		t.Errorf("runs %+v", got.Runs)
	}
}

func TestTimelineStaysBounded(t *testing.T) {
	r := NewRecorder(nil, nil, Track{})
	const n = 5*maxSamples + 3
	for i := range n {
		r.Sample(Sample{At: time.Duration(i) * time.Second, BusyMilli: cluster.WholeGPU, Capacity: 2})
		r.Sample(Sample{At: time.Duration(i) * time.Second, BusyMilli: cluster.WholeGPU, Capacity: 4})
	}
	got := r.Result(n*time.Second, false)
	samples := slices.Collect(got.Timeline.All())
	if len(samples) > maxSamples || len(samples) != got.Timeline.Len() || samples[0].At != 0 ||
		samples[len(samples)-1].At != (n-1)*time.Second {
		t.Errorf("%d samples", len(samples))
	}
	if got.Summary.GPUUtilisation != 0.25 {
		t.Errorf("utilisation %v, changed by dropping samples", got.Summary.GPUUtilisation)
	}
}

func TestDeliver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	broken := errors.New("broken")
	fill := func(staging string) error { return os.WriteFile(filepath.Join(staging, "x"), []byte("new"), 0o644) }
	if err := Deliver(dir, func(staging string) error { return errors.Join(fill(staging), broken) }); !errors.Is(
		err,
		broken,
	) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder still exists: %v", err)
	}
	if err := Deliver(dir, fill); err != nil {
		t.Fatal(err)
	}
	if err := Deliver(dir, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 || entries[0].Name() != "x" {
		t.Errorf("%v, want x alone", entries)
	}
	if err := Deliver(filepath.Join(dir, "x", "y"), fill); err == nil {
		t.Error("a file was accepted as a folder")
	}
	if err := os.Mkdir(filepath.Join(dir, "z"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := Deliver(dir, func(staging string) error {
		return errors.Join(
			os.WriteFile(filepath.Join(staging, "x"), []byte("newer"), 0o644),
			os.WriteFile(filepath.Join(staging, "z"), nil, 0o644),
		)
	})
	if x, _ := os.ReadFile(filepath.Join(dir, "x")); err == nil || string(x) != "new" {
		t.Errorf("a folder has the name of the second file, and the first is %q: %v", x, err)
	}
}

func TestParseTrack(t *testing.T) {
	if got, err := ParseTrack("1000:1301"); err != nil || got != (Track{1000, 1301}) || got.String() != "1000:1301" {
		t.Error(got, err)
	}
	for _, text := range []string{"", "5", "5:", ":5", "5:5", "6:5", "-1:5", "a:b", "1:2:3"} {
		if _, err := ParseTrack(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// TestFirstRuns: of many runs only the first are kept, those on several nodes count as so many, and
// the sums have all of them. A Recorder that omits runs has the same sums.
func TestFirstRuns(t *testing.T) {
	two := cluster.Placement{{Node: 0}, {Node: 1}}
	var sums []JobResult
	for _, omit := range []bool{false, true} {
		r := NewRecorder(packed.Of(cluster.Job{ID: 1, GPUs: 2}), []cluster.Node{{GPUs: 1}, {GPUs: 1}}, Track{})
		if omit {
			r.OmitRuns()
		}
		for i := range time.Duration(maxRunNodes) {
			r.Ran(0, 2*i, two)
			r.Preempted(0, 2*i+1)
		}
		got := r.Result(2*maxRunNodes, true)
		want := maxRunNodes / 2
		if omit {
			want = 0
		}
		if len(got.Runs) != want || got.RunsCut == omit {
			t.Fatalf("%d runs, %v", len(got.Runs), got.RunsCut)
		}
		if want > 0 && got.Runs[want-1].To != time.Duration(2*want-1) {
			t.Errorf("the last run ends at %v", got.Runs[want-1].To)
		}
		sums = append(sums, got.Jobs.Slice()...)
	}
	if !reflect.DeepEqual(sums[0], sums[1]) || sums[0].Runs != maxRunNodes {
		t.Errorf("%+v and %+v", sums[0], sums[1])
	}
}
