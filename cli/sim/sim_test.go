package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

const header = "job_id,submit_s,duration_s,num_gpus\n"

// say runs a command line as pos_cli does.
func say(ctx context.Context, args ...string) (out string, err error) {
	var stdout, stderr bytes.Buffer
	set := verb.Set{Verbs: Verbs()}
	_, err = set.Run(ctx, append([]string{"sim"}, args...), verb.Streams{Out: &stdout, Err: &stderr})
	return stdout.String(), err
}

func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMistakes checks that errors name what is wrong and what is allowed, and that no files are
// left.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	good := file(t, dir, "jobs.csv", header+"0,0,10,2\n1,2,9,1\n")
	run := []string{"run", "--nodes", "1", "--gpus-per-node", "2", "--out", filepath.Join(dir, "out", "deep"), "--jobs"}
	for _, test := range []struct {
		name  string
		jobs  string // text of the file; empty: the good one
		flags []string
		usage bool
		want  []string
	}{
		{"column", "job_id,submit_s,duration_s,gpus\n0,0,1,1\n", nil, false, []string{"bad.csv:1", `"gpus"`, "num_gpus"}},
		{"negative time", header + "0,0,10,2\n1,-2,9,1\n", nil, false, []string{"bad.csv:3", "submit_s", `"-2"`, "from 0"}},
		{
			"larger than the cluster", header + "0,0,10,2\n1,2,9,3\n", nil, false,
			[]string{"bad.csv:3", "num_gpus", `"3"`, "at most 2"},
		},
		{"duplicate", header + "0,0,10,2\n0,2,9,1\n", nil, false, []string{"bad.csv:3", "job_id", "line 2"}},
		{"empty", " ", nil, false, []string{"bad.csv", "empty"}},
		{"truncated", `[{"status": "Pass", "vc": "a", "jobid": "x", "att`, nil, false, []string{"bad.csv:1", "ends"}},
		{"order", "", []string{"--order", "frob"}, true, []string{`"frob"`, "fifo", "srtf", "pollux"}},
		{"placement", "", []string{"--placement", "frob"}, true, []string{`"frob"`, "first-free"}},
		{"admission", "", []string{"--admission", "load:x"}, true, []string{`"load:x"`, "load:1.2"}},
		{"backfill", "", []string{"--backfill", "frob"}, true, []string{`"frob"`, "easy"}},
		{"victims", "", []string{"--victims", "frob"}, true, []string{`"frob"`, "cheapest"}},
		{"walk", "", []string{"--walk", "frob"}, true, []string{`"frob"`, "strict"}},
		{"profile", "", []string{"--profile", "frob"}, true, []string{`"frob"`, "blox"}},
		{
			"order of a profile", "",
			[]string{"--profile", "blox", "--order", "srsf"},
			true,
			[]string{`"srsf"`, "fifo, las, srtf"},
		},
		{"flag of a profile", "", []string{"--profile", "tiresias", "--round", "5"}, true, []string{"tiresias", "--round"}},
		{"time", "", []string{"--quantum", "-3"}, true, []string{"--quantum", `"-3"`, "0.5"}},
		{"track", "", []string{"--track", "9:5"}, true, []string{"--track", `"9:5"`, "LO:HI"}},
		{"no job is tracked", "", []string{"--track", "7:9"}, false, []string{"7:9"}},
		{"limits", "", []string{"--order", "dlas", "--limits", "7,3"}, true, []string{"limits", "ascend"}},
		{"two clusters", "", []string{"--gpu-types", "A:1x2"}, true, []string{"--nodes", "--gpu-types"}},
		{
			"events", "",
			[]string{"--node-events", file(t, dir, "e.csv", "time_s,node,event\n5,7,down\n")},
			false,
			[]string{"e.csv:2", "node", `"7"`},
		},
		{
			"too far", header + "0,9000000000,9000000000,1\n", nil, false,
			[]string{"bad.csv:2", "submit_s", `"9000000000"`, "at most 4000000000"},
		},
		{
			"a length too far", header + "0,1000,10,1\n1,1000,4e9,1\n", nil, false,
			[]string{"bad.csv:3", "duration_s", `"4e9"`, "at most 3999999000"},
		},
		{
			"a late arrival", "job_id,arrival_s,duration_s,num_gpus\n0,5e9,10,1\n", nil, false,
			[]string{"bad.csv:2", "arrival_s", `"5e9"`, "at most 4000000000"},
		},
		{
			"too far in all", header + "0,0,3000000000,2\n1,0,3000000000,2\n", nil, false,
			[]string{"1 of 2 jobs", "4000000000 s"},
		},
		{
			"too far for blox", header + "0,0,3000000000,2\n1,0,3000000000,2\n",
			[]string{"--profile", "blox", "--round", "1000000"},
			false,
			[]string{"4000000000 s"},
		},
		{
			"too far for tiresias", header + "0,0,3000000000,2\n1,0,3000000000,2\n",
			[]string{"--profile", "tiresias"},
			false,
			[]string{"4000000000 s"},
		},
		{
			"admission of a profile", "",
			[]string{"--profile", "tiresias", "--admission", "load:1"},
			true,
			[]string{`"load:1"`, "all jobs"},
		},
		{
			"admission of the synthesizer", "",
			[]string{"--order", "synthesizer", "--admission", "load:1"},
			true,
			[]string{"--admission"},
		},
		{
			"beside what is whole", "",
			[]string{"--beside", good},
			false,
			[]string{"jobs.csv", "read as csv", "no effect"},
		},
		{"format", "", []string{"--format", "frob"}, true, []string{`"frob"`, "philly"}},
		{"tier of nothing", "", []string{"--tier", "ram"}, true, []string{"--tier", "--cost"}},
		{"choice of a profile", "", []string{"--profile", "blox", "--choose-every", "5"}, true, []string{"--choose-every"}},
		{
			"limits of no queues", "",
			[]string{"--order", "las", "--limits", "5,9"},
			true,
			[]string{"--limits", "las", "dlas-gpu"},
		},
		{
			"limits of a profile", "",
			[]string{"--profile", "tiresias", "--order", "srtf", "--limits", "5,9"},
			true,
			[]string{"--limits", "srtf", "dlas-gpu"},
		},
		{"no limits", "", []string{"--profile", "tiresias", "--order", "dlas-gpu"}, true, []string{"--limits", "3250,7200"}},
		{
			"broken limits", "",
			[]string{"--profile", "tiresias", "--order", "dlas", "--limits", "0.5"},
			true,
			[]string{"whole seconds"},
		},
		{"weights without drf", "", []string{"--order", "fifo", "--weights", "a=1"}, true, []string{"--weights", "drf"}},
		{"victims without preemption", "", []string{"--victims", "cheapest"}, true, []string{"--victims", "fifo", "srtf"}},
		{
			"backfill of a full walk", "",
			[]string{"--order", "las", "--backfill", "easy"},
			true,
			[]string{"--backfill", "--walk strict"},
		},
		{"age of an allocation", "", []string{"--order", "gavel", "--age", "5"}, true, []string{"--age", "gavel"}},
		{"share of nothing", "", []string{"--order", "las", "--cost-share", "0.1"}, true, []string{"--cost-share", "--cost"}},
		{
			"type of no node", "job_id,submit_s,duration_s,num_gpus,gpu_type\n0,0,10,2,V100\n", nil, false,
			[]string{"bad.csv:2", "V100", "--gpu-types"},
		},
		{"tier that nothing is kept on", "", []string{
			"--order", "las", "--cost",
			file(t, dir, "t.csv", "tier,save_s,load_s\nram,1,2\n"), "--tier", "disk",
		}, true, []string{"t.csv", "ram", `"disk"`}},
		{
			"larger than its user's cap", "job_id,submit_s,duration_s,num_gpus,user\n0,0,10,1,o/a\n1,0,10,2,o/a\n",
			[]string{"--caps", "o=1"},
			false,
			[]string{"bad.csv:3", "num_gpus", `"2"`, "at most 1", "--caps"},
		},
		{"two caps of one", "", []string{"--caps", "a=1,b=2,a=3"}, true, []string{"--caps", "a twice"}},
		{"round without end", "", []string{"--round", "0.000000001"}, true, []string{"--round", "0.001 s", "0.000000001"}},
		{"quantum without end", "", []string{"--order", "las", "--quantum", "1us"}, true, []string{"--quantum", "0.001 s"}},
		{
			"costs", "",
			[]string{"--order", "las", "--cost", file(t, dir, "c.csv", "save_s,load_s\n-1,2\n")},
			false,
			[]string{"c.csv:2", "save_s", `"-1"`},
		},
	} {
		path := good
		if test.jobs != "" {
			path = file(t, dir, "bad.csv", strings.TrimPrefix(test.jobs, " "))
		}
		_, err := say(context.Background(), append(append(run[:len(run):len(run)], path), test.flags...)...)
		if err == nil || errors.Is(err, verb.ErrUsage) != test.usage {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not contain %s", test.name, err, want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

// TestFlagsWithoutEffect checks that a flag without effect is an error that names the setting;
// beside each is a setting in which it has an effect.
func TestFlagsWithoutEffect(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", header+"0,0,10,2\n1,2,9,1\n")
	cost := file(t, dir, "cost.csv", "tier,save_s,load_s\nram,1,2\n")
	events := file(t, dir, "events.csv", "time_s,node,event\n5,0,down\n6,0,up\n")
	cluster := " --nodes 1 --gpus-per-node 2"
	run, made := "run --jobs "+jobs+cluster, "compare --generate poisson --load 1 --count 3"+cluster
	for _, test := range []struct{ idle, flag, where, decides string }{
		{
			"generate --count 2 --jobs-per-hour 5 --nodes 3 --gpus-per-node 2", "nodes", "--jobs-per-hour",
			"generate --count 2 --load 1 --nodes 3 --gpus-per-node 2",
		},
		{"generate --count 2 --jobs-per-hour 5 --gpus-per-node 2", "gpus-per-node", "--jobs-per-hour", ""},
		{
			"generate --count 2 --jobs-per-hour 5 --tenants a:1", "tenants", "--kind poisson",
			"generate --count 2 --jobs-per-hour 5 --kind tenants --tenants a:1",
		},
		{"generate --count 2 --jobs-per-hour 5 --kind burst --tenants a:1", "tenants", "--kind burst", ""},
		{
			"generate --count 2 --jobs-per-hour 5 --kind tenants --lengths fixed:1h", "lengths", "--kind tenants",
			"generate --count 2 --jobs-per-hour 5 --kind tenants --tenants a:1 --lengths fixed:1h",
		},
		{
			"generate --count 2 --jobs-per-hour 5 --kind tenants --tenants vision/try:1 --sizes 2:1", "sizes",
			"--kind tenants", "",
		},
		{"compare --jobs " + jobs + cluster + " --order fifo --count 5", "count", "with --jobs", made},
		{"compare --jobs " + jobs + cluster + " --order fifo --sizes 1:1", "sizes", "with --jobs", made + " --sizes 1:1"},
		{"compare --jobs " + jobs + cluster + " --order fifo --jobs-per-hour 3", "jobs-per-hour", "with --jobs", ""},
		{"compare --jobs " + jobs + cluster + " --order fifo --generate burst", "generate", "with --jobs", ""},
		{made + " --format csv", "format", "without --jobs", run + " --format csv"},
		{made + " --tenants a:1", "tenants", "--generate poisson", ""},
		{run + " --quantum 5", "quantum", "order fifo", run + " --quantum 5 --order srtf"},
		{
			"compare --jobs " + jobs + cluster + " --order fifo,sjf --quantum 5", "quantum", "order fifo and sjf",
			"compare --jobs " + jobs + cluster + " --order fifo,las --quantum 5",
		},
		{run + " --cost " + cost, "cost", "order fifo", run + " --order las --cost " + cost},
		{
			run + " --order drf --cost " + cost + " --node-events " + events + " --cost-share 0.1", "cost-share", "order drf",
			run + " --order drf --node-events " + events + " --cost " + cost,
		},
		{run + " --age 5", "age", "order fifo", run + " --age 5 --job-mtbf 50"},
		{run + " --estimate-error 1", "estimate-error", "order fifo", run + " --estimate-error 1 --backfill easy"},
		{
			run + " --order las --victims tail-if-worth", "victims", "without --cost",
			run + " --order las --victims tail-if-worth --cost " + cost,
		},
		{run + " --retries 3", "retries", "--job-mtbf", run + " --retries 300 --job-mtbf 50"},
		{run + " --node-repair 3", "node-repair", "--node-mtbf", run + " --node-repair 3 --node-mtbf 1000"},
		{run + " --seed 3", "seed", "nothing is random", run + " --seed 3 --order pollux"},
		{run + " --choose-every 3600", "choose-every", "order fifo", run + " --order synthesizer --choose-every 3600"},
		{run + " --profile blox --seed 3", "seed", "profile blox", made + " --seed 3 --profile blox --order fifo"},
		{run + " --profile tiresias --retries 3", "retries", "profile tiresias", ""},
		{
			run + " --profile blox --placement best-fit", "placement", "profile blox",
			run + " --profile blox --placement first-free --backfill none",
		},
	} {
		_, err := say(context.Background(), strings.Fields(test.idle)...)
		if !errors.Is(err, verb.ErrUsage) || !strings.Contains(err.Error(), "--"+test.flag+" has no effect ") ||
			!strings.Contains(err.Error(), test.where) {
			t.Errorf("%s: %v, want --%s and %s", test.idle, err, test.flag, test.where)
		}
		if test.decides == "" {
			continue
		}
		if _, err := say(context.Background(), strings.Fields(test.decides)...); err != nil {
			t.Errorf("%s: %v", test.decides, err)
		}
	}
}

// TestInterrupted interrupts a simulation and a comparison: the results so far are complete and
// marked partial.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", header+"0,0,10,2\n1,2,9,1\n")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct{ verb, profile, summary string }{
		{"run", "native", "summary.json"},
		{"run", "blox", "summary.json"},
		{"run", "tiresias", "summary.json"},
		{"compare", "native", "compare.json"},
	} {
		out := filepath.Join(dir, test.verb+test.profile)
		_, err := say(
			ctx,
			test.verb,
			"--jobs",
			jobs,
			"--nodes",
			"1",
			"--gpus-per-node",
			"2",
			"--order",
			"fifo",
			"--profile",
			test.profile,
			"--out",
			out,
		)
		if err == nil || !strings.Contains(err.Error(), "partial") {
			t.Errorf("%s %s: %v", test.verb, test.profile, err)
		}
		text, err := os.ReadFile(filepath.Join(out, test.summary))
		if err != nil {
			t.Fatal(err)
		}
		var view struct{ Partial bool }
		if err := json.Unmarshal(text, &view); err != nil || !view.Partial {
			t.Errorf("%s %s: %s, %v", test.verb, test.profile, text, err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "runnative", "jobs.csv"))
	if want := "job_id,submit_s,start_s,finish_s,preemptions\n0,0,,,0\n1,2,,,0\n"; err != nil || times(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

// TestInterruptedTooLate interrupts after all jobs have ended, while results are written: the
// result is complete and not marked partial.
func TestInterruptedTooLate(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", header+"0,0,10,2\n1,2,9,1\n")
	for verb, looks := range map[string]int{"run": 1, "compare": 0} {
		out := filepath.Join(dir, verb)
		_, err := say(
			&lateContext{context.Background(), looks},
			verb,
			"--jobs",
			jobs,
			"--nodes",
			"1",
			"--gpus-per-node",
			"2",
			"--order",
			"fifo",
			"--out",
			out,
		)
		if err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		if _, err := os.Stat(filepath.Join(out, "index.html")); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// lateContext ends after Err has been called a number of times. (The simulations of a comparison
// have contexts of their own.)
type lateContext struct {
	context.Context
	looks int
}

func (c *lateContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestQuantaWithLoading checks that jobs that load for longer than a round or a lease make
// progress: a started job works for a while before it is preempted.
func TestQuantaWithLoading(t *testing.T) {
	dir := t.TempDir()
	text := "job_id,submit_s,duration_s,num_gpus,model\n"
	for i := range 24 {
		text += fmt.Sprintf("%d,%d,%d,%d,resnet50\n", i, i, 50+i*13%200, 1+i%4)
	}
	jobs := file(t, dir, "jobs.csv", text)
	cost := file(t, dir, "cost.csv", "save_s,load_s\n1000,2000\n")
	for _, order := range []string{"themis", "gavel", "optimus", "pollux"} {
		out, err := say(
			context.Background(),
			"run",
			"--jobs",
			jobs,
			"--nodes",
			"2",
			"--gpus-per-node",
			"4",
			"--order",
			order,
			"--cost",
			cost,
			"--until",
			"1000000",
			"--json",
		)
		if err != nil || !strings.Contains(out, `"partial": false`) || !strings.Contains(out, `"n": 24,`) ||
			!strings.Contains(out, `"quantum_s": `) {
			t.Errorf("%s: %v, %s", order, err, out)
		}
	}
}

// TestGroupsDoNotCycle has users whose preempted jobs leave more GPUs than needed. Other
// jobs of the preempting user fill these, and the preempted users could preempt in turn, without
// end at one time.
func TestGroupsDoNotCycle(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shares.csv": "0,0,41,3,o/b,1\n1,3,45,2,o/a,1\n2,0,26,1,o/b,0.5\n3,2,27,4,c,1\n4,5,21,2,o/b,1\n",
		"whole.csv":  "0,0,26,2,o/a,1\n1,3,54,3,c,1\n2,1,44,1,o/b,1\n3,1,34,2,o/b,1\n4,1,46,1,o/a,1\n",
	} {
		jobs := file(t, dir, name, "job_id,submit_s,duration_s,num_gpus,user,share\n"+text)
		line := "run --json --nodes 1 --gpus-per-node 4 --order quota --quotas o/a=1,o/b=1,c=2 --jobs " + jobs
		out, err := say(&lateContext{context.Background(), 100}, strings.Fields(line)...)
		if err != nil || !strings.Contains(out, `"n": 5,`) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// TestBar checks that progress counts simulated time if the end is known, and jobs otherwise.
func TestBar(t *testing.T) {
	jobs := packed.Of(cluster.Job{Submit: 100 * time.Second}, cluster.Job{Submit: 50 * time.Second})
	for until, want := range map[time.Duration]string{
		0: "simulate: 1 of 2 jobs\n", 100 * time.Second: "simulate: 1 of 2 jobs\n",
		99 * time.Second: "simulate: 60 of 99 simulated s\n",
	} {
		var shown bytes.Buffer
		end := (&settings{until: until}).end(jobs)
		b := &bar{terminal.NewCounter(&shown, unitOf(end)), end}
		if b.progress("simulate")(1, 2, 60*time.Second); shown.String() != want {
			t.Errorf("until %v: %q, want %q", until, shown.String(), want)
		}
	}
}

// TestShortAge bounds how often jobs that have all waited too long preempt each other: at most once
// a minute, and not while they load.
func TestShortAge(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", header+"0,0,600,1\n1,0,660,1\n")
	cost := file(t, dir, "cost.csv", "save_s,load_s\n1,200\n")
	for flags, most := range map[string]int{"": 21, " --cost " + cost: 21, " --quantum 120": 11} {
		line := "run --json --until 100000 --order srtf --age 0.001 --nodes 1 --gpus-per-node 1 --jobs " + jobs + flags
		out, err := say(context.Background(), strings.Fields(line)...)
		if err != nil {
			t.Fatal(err)
		}
		var summary struct {
			N, Preemptions int
			Partial        bool
		}
		if err := json.Unmarshal([]byte(out), &summary); err != nil || summary.N != 2 || summary.Partial ||
			summary.Preemptions > most {
			t.Errorf("%q: %+v, %v; want at most %d preemptions", flags, summary, err, most)
		}
	}
}

// TestCapsOfAllocations checks that elastic policies and others respect users' caps.
func TestCapsOfAllocations(t *testing.T) {
	text := "job_id,submit_s,duration_s,num_gpus,user\n"
	for i := range 12 {
		text += fmt.Sprintf("%d,%d,100,1,%c\n", i, i, 'a'+i%2)
	}
	jobs := file(t, t.TempDir(), "jobs.csv", text)
	for _, order := range []string{"gavel", "optimus", "pollux"} {
		out, err := say(
			context.Background(),
			"run",
			"--jobs",
			jobs,
			"--nodes",
			"2",
			"--gpus-per-node",
			"4",
			"--order",
			order,
			"--caps",
			"a=1",
			"--json",
		)
		if err != nil || !strings.Contains(out, `"n": 12,`) {
			t.Errorf("%s: %v, %s", order, err, out)
		}
	}
}

// TestElasticUnderCaps runs an elastic job that asks for more than its owner's cap on the cap: half
// of the GPUs, for twice as long. Jobs that wait for it get a reservation at that time.
func TestElasticUnderCaps(t *testing.T) {
	dir := t.TempDir()
	top := "job_id,submit_s,duration_s,num_gpus,user,min_gpus,max_gpus\n"
	first := file(t, dir, "first.csv", top+"0,0,10,4,o/a,1,8\n1,1,30,2,b,2,2\n2,2,5,4,c,4,4\n3,3,12,2,b,2,2\n")
	second := file(t, dir, "second.csv", top+"0,0,10,4,c,4,4\n1,1,10,4,o/a,1,8\n2,2,5,4,b,4,4\n3,3,15,2,b,2,2\n")
	for _, test := range []struct{ flags, want string }{
		{"--order fifo --caps o=2 --jobs " + first, "0,0,0,20,0\n1,1,1,31,0\n2,2,31,36,0\n3,3,36,48,0\n"},
		{"--order srtf --caps o/a=1 --jobs " + first, "0,0,0,45,1\n1,1,1,48,1\n2,2,2,7,0\n3,3,7,19,0\n"},
		{
			"--order fifo --backfill conservative --caps o=2 --jobs " + second,
			"0,0,0,10,0\n1,1,10,30,0\n2,2,30,35,0\n3,3,10,25,0\n",
		},
	} {
		out := filepath.Join(dir, "out")
		line := "run --no-pictures --model own --nodes 1 --gpus-per-node 4 --out " + out + " " + test.flags
		if _, err := say(context.Background(), strings.Fields(line)...); err != nil {
			t.Errorf("%s: %v", test.flags, err)
			continue
		}
		got, _ := os.ReadFile(filepath.Join(out, "jobs.csv"))
		if want := "job_id,submit_s,start_s,finish_s,preemptions\n" + test.want; times(got) != want {
			t.Errorf("%s:\n%swant\n%s", test.flags, got, want)
		}
		os.RemoveAll(out)
	}
}

// TestGenerateElsewhere writes to a path that is not a regular file, and does not replace it.
func TestGenerateElsewhere(t *testing.T) {
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	if _, err := say(context.Background(), "generate", "--jobs-per-hour", "5", "--count", "2", "--out", link); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().IsRegular() {
		t.Errorf("%v, %v: expected what was there", info, err)
	}
}

// TestTwice checks that equal names in a list are an error: their files would overwrite each other.
func TestTwice(t *testing.T) {
	jobs := file(t, t.TempDir(), "jobs.csv", header+"0,0,10,1\n1,10,10,1\n")
	for _, flags := range [][]string{
		{"--order", "fifo,srtf,fifo"},
		{"--placement", "best-fit,best-fit"},
		{"--admission", "all,all"},
		{"--load", "0.5,0.50"},
	} {
		_, err := say(
			context.Background(),
			append([]string{"compare", "--jobs", jobs, "--nodes", "1", "--gpus-per-node", "2"}, flags...)...)
		if !errors.Is(err, verb.ErrUsage) || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%v: %v", flags, err)
		}
	}
	if _, err := say(context.Background(), "compare", "--jobs", jobs, "--nodes", "1", "--gpus-per-node", "2", "--order",
		"fifo,dlas", "--limits", "5,9"); err != nil {
		t.Errorf("limits of one order out of two: %v", err)
	}
}

// TestLoads scales a trace to a load: 20 GPU-seconds in 10 s on 2 GPUs are a load of 1.
func TestLoads(t *testing.T) {
	dir := t.TempDir()
	jobs := file(t, dir, "jobs.csv", header+"0,0,10,1\n1,10,10,1\n")
	out, err := say(
		context.Background(),
		"compare",
		"--jobs",
		jobs,
		"--nodes",
		"1",
		"--gpus-per-node",
		"2",
		"--order",
		"fifo",
		"--load",
		"1,0.5,0.25",
		"--json",
	)
	if err != nil {
		t.Fatal(err)
	}
	var view struct {
		Rows []struct {
			Offered float64 `json:"offered_load"`
			Summary struct {
				Makespan float64 `json:"makespan_s"`
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil || len(view.Rows) != 3 {
		t.Fatal(out, err)
	}
	_, err = say(
		context.Background(),
		"compare",
		"--jobs",
		jobs,
		"--nodes",
		"1",
		"--gpus-per-node",
		"2",
		"--order",
		"fifo",
		"--load",
		"1e-300",
	)
	if err == nil || !strings.Contains(err.Error(), "--load 1e-300: ") ||
		!strings.Contains(err.Error(), "too far apart") {
		t.Errorf("jobs that lie farther apart than time goes: %v", err)
	}
	for i, want := range []struct{ offered, makespan float64 }{{1, 20}, {0.5, 30}, {0.25, 50}} {
		if got := view.Rows[i]; got.Offered != want.offered || got.Summary.Makespan != want.makespan {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"300": 300 * time.Second, "0.5": time.Second / 2, ".25": time.Second / 4, "1.000000001": time.Second + 1,
		"5m": 5 * time.Minute, "1h30m": 90 * time.Minute,
	} {
		if got, err := parseSeconds(text); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ".", "-1", "1e3", "x", "1.0000000001", "99999999999999999999", "-5m", "5x"} {
		if got, err := parseSeconds(text); err == nil {
			t.Errorf("%q passed as %v", text, got)
		}
	}
}

// TestNamesOfNodes checks that two nodes of one name are an error, also if a count or a default
// made the name.
func TestNamesOfNodes(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"name,gpus\na,4\nb,4\na,8\n":               `n.csv:4: name: got "a", want a name of its own; line 2 has the same`,
		"name,gpus,count\na-1,4,\nb,4,\n\na,8,2\n": `n.csv:5: name: got "a-1", want a name of its own; line 2 has the same`,
		"name,gpus\nnode1,4\n,4\n":                 `n.csv:3: name: got "node1", want a name of its own; line 2 has the same`,
	} {
		if _, err := (&machines{NodesFile: file(t, dir, "n.csv", text)}).cluster(); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestClusters reads clusters of several node classes.
func TestClusters(t *testing.T) {
	dir := t.TempDir()
	both := machines{
		NodesFile: file(t, dir, "n.csv", "name,gpus,gpu_type,memory_gib,rack,count\nbig,8,H100,80,r1,2\n,4,T4,,,1\n"),
	}
	nodes, err := both.cluster()
	if err != nil || len(nodes) != 3 || nodes[1].Name != "big-1" || nodes[1].GPUMemoryBytes != 80<<30 ||
		nodes[2].GPUs != 4 ||
		nodes[2].Name != "node2" {
		t.Errorf("%+v, %v", nodes, err)
	}
	typed := machines{GPUTypes: "H100:2x8,T4:1x4"}
	if nodes, err := typed.cluster(); err != nil || len(nodes) != 3 || nodes[2].GPUType != "T4" || nodes[2].ID != 2 {
		t.Errorf("%+v, %v", nodes, err)
	}
	for _, text := range []string{"H100", "H100:2", "H100:2x", ":2x8", "H100:0x8", "H100:2x65", "H100:2x8,"} {
		if _, err := (&machines{GPUTypes: text}).cluster(); !errors.Is(err, verb.ErrUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "name\nx\n", "gpus\n", "gpus\n65\n", "gpus,count\n4,0\n", "gpus,size\n4,1\n",
		"gpus,rack\n4\n",
	} {
		if _, err := (&machines{NodesFile: file(t, dir, "bad.csv", text)}).cluster(); err == nil ||
			!strings.Contains(err.Error(), "bad.csv") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNamesInPictures checks that pictures name what differs between the schedulers, and count
// them.
func TestNamesInPictures(t *testing.T) {
	made := "compare --nodes 2 --gpus-per-node 2 --generate poisson --count 20 --order fifo,srtf --out "
	for flags, want := range map[string][]string{
		"--load 0.5,0.9": {"comparison of 2 schedulers at 2 loads; over time: at load 0.9", `"names":["fifo","srtf"]`},
		"--load 0.5 --placement first-free,best-fit": {
			"comparison of 4 schedulers<",
			`"names":["fifo + first-free","fifo + best-fit","srtf + first-free","srtf + best-fit"]`,
		},
	} {
		out := filepath.Join(t.TempDir(), "out")
		if _, err := say(context.Background(), strings.Fields(made+out+" "+flags)...); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(out, "index.html"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(page), text) {
				t.Errorf("%s: the page lacks %q", flags, text)
			}
		}
	}
}
