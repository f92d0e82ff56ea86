package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// TestRoundTrip writes random events of all kinds, and reads the same.
func TestRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	nodes := []cluster.Node{
		{ID: 0, GPUs: 4, GPUType: "A"},
		{ID: 1, GPUs: 4, GPUType: "A"},
		{ID: 2, Name: "big \"x\"", GPUs: 8, Rack: "r", GPUMemoryBytes: 80 << 30},
		{ID: 3, GPUs: 0},
	}
	var text bytes.Buffer
	w, err := NewWriter(&text, Header{Source: "cluster", Began: "2026-01-02T03:04:05Z", Nodes: nodes, Scheduler: "fifo"})
	if err != nil {
		t.Fatal(err)
	}
	var want []Event
	at := time.Duration(0)
	for i := range 3000 {
		at += time.Duration(random.Int64N(int64(time.Second))) / time.Duration(1+i%1000) * time.Duration(i%3)
		e := randomEvent(random, at)
		want = append(want, e)
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(at, true); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&text, "log")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Header.Nodes, nodes) || r.Header.Source != "cluster" ||
		r.Header.Began != "2026-01-02T03:04:05Z" {
		t.Errorf("got %+v", r.Header)
	}
	for i := range want {
		got, err := r.Next()
		if err != nil || !reflect.DeepEqual(got, want[i]) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want[i])
		}
	}
	end, err := r.Next()
	if err != nil || end.Kind != End || !end.Partial || end.Lines != 3002 || !r.Ended() {
		t.Errorf("got %+v, %v", end, err)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
}

// randomEvent returns an event with all fields that its kind can have.
func randomEvent(random *rand.Rand, at time.Duration) Event {
	kinds := []Kind{
		Arrive, Reject, Hold, Admit, Promise, Start, Resume, Migrate, Grow, Shrink, Restart, Preempt, Fail, Finish, GiveUp,
		Withdraw, Down, Up, Drain, Adopt, Work, Refuse, Keep, GiveBack, Cordon, Occupy, Vacate, Choose,
	}
	e := Event{At: at, Kind: kinds[random.IntN(len(kinds))], Ready: at, Speed: 1}
	id := cluster.JobID(random.Int64N(1 << 40))
	if e.Kind == Adopt {
		e.Phase = []Phase{Held, Waiting, Running}[random.IntN(3)]
	}
	switch {
	case e.Kind.ofNode():
		e.Node = cluster.NodeID(random.Int32N(1000))
		if e.Kind.ofGPU() {
			e.GPU = random.Int32N(64)
		}
		if e.Kind == Up && random.IntN(2) == 0 {
			e.Machine = &cluster.Node{ID: e.Node, Name: "ü\n", GPUs: random.IntN(9), GPUType: "T", GPUMemoryBytes: 5, Rack: "q"}
		}
		return e
	case e.Kind.describes():
		e.Facts = &cluster.Job{
			ID: id, Name: "a\\b", User: "o/u", Model: "m", GPUType: "A", GPUs: 1 + random.IntN(9), Share: 1 + random.IntN(1000),
			MinGPUs: random.IntN(2), MaxGPUs: random.IntN(9), GPUMemoryBytes: random.Int64(), Priority: random.IntN(7) - 3, Fixed: random.IntN(2) == 0,
			Submit: time.Duration(random.Int64N(1 << 40)), Estimate: time.Duration(random.Int64N(1 << 40)),
			Length: time.Duration(random.Int64N(1 << 40)),
		}
	case e.Kind == Choose:
		e.Detail = "las+all"
		return e
	case e.Kind == Promise:
		e.Start = at + time.Duration(random.Int64N(1<<40))
	case e.Kind == Reject:
		e.Detail = "too \"large\""
	case e.Kind == Preempt:
		e.Reason = []Reason{ForJob, Reallocation, NodeDrained}[random.IntN(3)]
	case e.Kind == Fail:
		e.Reason = []Reason{JobFailed, NodeLost}[random.IntN(2)]
	}
	if e.hasGPUs() {
		for node := range cluster.NodeID(3) {
			for i := range int32(8) {
				if random.IntN(2) == 0 {
					e.On = append(e.On, cluster.GPU{Node: node, Index: i})
				}
			}
		}
		e.Ready, e.Load = at+time.Duration(random.Int64N(1e9)), time.Duration(random.Int64N(1e9))
		e.Done, e.Speed = time.Duration(random.Int64N(1e15)), random.Float64()
		if random.IntN(2) == 0 {
			e.Reason = Overtakes
		}
	}
	e.Job = id
	if e.hasGPUs() || e.Kind == Preempt || e.Kind == Fail || e.Kind == Finish || e.Kind == Work || e.Kind == Refuse {
		e.Run = 1 + random.IntN(100)
	}
	if e.Kind == Adopt {
		e.LastRun = e.Run + random.IntN(3)
	}
	if e.Reason == ForJob {
		e.For = id / 2
	}
	if e.Reason == NodeLost || e.Reason == NodeDrained {
		e.Node = 7
	}
	return e
}

// first is the first line of the logs below: two nodes of two GPUs.
const first = `{"format":"phos-scheduler-events","version":"1.0","source":"cluster","nodes":[{"node":0,"count":2,"gpus":2,"gpu_type":"A"}]}`

// read reads a log.
func read(text string) (Report, error) {
	r, err := NewReader(strings.NewReader(text), "log")
	if err != nil {
		return Report{}, err
	}
	return Check(r)
}

// TestVersions: a later minor version may have what we do not know, another major version is
// refused by its number.
func TestVersions(t *testing.T) {
	const event = `{"time_s":1,"event":"arrive","job":1,"gpus":1,"submit_s":0}` + "\n"
	later := strings.Replace(first, "1.0", "1.7", 1)
	for _, test := range []struct{ text, want string }{
		{first + "\n" + event, ""},
		{strings.Replace(later, `"source"`, `"new":{"x":1},"source"`, 1) + "\n" + event, ""},
		{later + "\n" + strings.Replace(event, `"job"`, `"colour":"red","job"`, 1), ""},
		{later + "\n" + `{"time_s":0,"event":"dance","job":5}` + "\n" + event, ""},
		{first + "\n" + `{"time_s":0,"event":"dance","job":5}` + "\n" + event, `log:2: event: got "dance"`},
		{first + "\n" + strings.Replace(event, `"job"`, `"colour":"red","job"`, 1), `log:2: json: unknown field "colour"`},
		{strings.Replace(first, "1.0", "2.0", 1) + "\n" + event, "is of version 2.0, and this program reads version 1.x"},
		{strings.Replace(first, "1.0", "one", 1) + "\n", `log:1: version: got "one", want MAJOR.MINOR`},
		{strings.Replace(first, "phos", "other", 1) + "\n", "log:1: not a log of events"},
		{"job_id,submit_s\n", "log:1: not a log of events"},
		{"", "log:1: the file is empty"},
		{first, "log:1: cut off in the middle of the line"},
		{first + "\n" + event[:20], "log:2: cut off in the middle of the line"},
		{first + "\n" + event + `{"time_s":2,"event":"end","lines":9}` + "\n", "log:3: lines: got 9, want 3"},
		{first + "\n" + `{"time_s":2,"event":"end","lines":2}` + "\n" + event, "log:3: a line behind the end"},
		{first + "\n" + event + strings.Replace(event, `:1,`, `:0.5,`, 1), "log:3: time_s: got 0.5, want 1 or later"},
	} {
		report, err := read(test.text)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\ngot %v, want %q", test.text, err, test.want)
		}
		if err == nil && report.Jobs != 1 {
			t.Errorf("%s\ngot %+v", test.text, report)
		}
	}
	if _, err := read(strings.Replace(first, "1.0", "2.0", 1) + "\n"); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v, want ErrVersion", err)
	}
}

// TestCheck has logs in which one line, the last but for an event later, cannot be true.
func TestCheck(t *testing.T) {
	arrive := func(id, gpus int, more string) string {
		return fmt.Sprintf(`{"time_s":0,"event":"arrive","job":%d,"gpus":%d,"submit_s":0%s}`, id, gpus, more) + "\n" +
			fmt.Sprintf(`{"time_s":0,"event":"admit","job":%d}`, id)
	}
	start := func(id, run int, on string) string {
		return fmt.Sprintf(`{"time_s":0,"event":"start","job":%d,"run":%d,"on":"%s"}`, id, run, on)
	}
	event := func(kind string, id int, more string) string {
		return fmt.Sprintf(`{"time_s":0,"event":%q,"job":%d,%s}`, kind, id, more)
	}
	adopt := func(id, gpus int, on string) string {
		return event("adopt", id, fmt.Sprintf(`"gpus":%d,"submit_s":0,"phase":"running","run":4,"on":%q`, gpus, on))
	}
	const (
		cordon0 = `{"time_s":0,"event":"node-cordon","node":0}`
		down0   = `{"time_s":0,"event":"node-down","node":0}`
		drain0  = `{"time_s":0,"event":"node-drain","node":0}`
		later   = `{"time_s":1,"event":"node-down","node":1}`
		occupy1 = `{"time_s":0,"event":"occupy","node":0,"gpu":1}`
		vacate1 = `{"time_s":0,"event":"vacate","node":0,"gpu":1}`
	)
	arrive1, arrive2, begin := arrive(1, 1, ""), arrive(1, 2, ""), start(1, 1, "0:0")
	refuse, keep := event("refuse", 1, `"run":1`), event("keep", 1, `"run":1,"on":"0:0"`)
	giveBack, fail := event("give-back", 1, `"run":1,"on":"0:1"`), event("fail", 1, `"run":1,"reason":"job"`)
	const preempt = `{"time_s":0,"event":"preempt","job":1,"run":1,"reason":"reallocation"}`
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{[]string{arrive(1, 2, ""), start(1, 1, "0:0-1"), arrive(2, 2, ""), start(2, 1, "1:0-1")}, ""},
		{[]string{arrive(1, 1, `,"share":400`), arrive(2, 1, `,"share":600`), start(1, 1, "0:0"), start(2, 1, "0:0")}, ""},
		{
			[]string{arrive(1, 1, `,"share":401`), arrive(2, 1, `,"share":600`), start(1, 1, "0:0"), start(2, 1, "0:0")},
			"has another job",
		},
		{
			[]string{arrive(1, 2, ""), start(1, 1, "0:0-1"), arrive(2, 2, ""), start(2, 1, "0-1:1")},
			"GPU 1 of node 0 has another job",
		},
		{[]string{arrive(1, 2, ""), start(1, 1, "0:0")}, "on 1 GPUs: it takes 2"},
		{[]string{arrive(1, 2, `,"min_gpus":1,"max_gpus":3`), start(1, 1, "0-1:0-1")}, "on 4 GPUs: it takes 1 to 3"},
		{[]string{arrive(1, 1, ""), start(1, 1, "2:0")}, "no GPU 0 on node 2"},
		{[]string{arrive(1, 1, ""), start(1, 1, "1:2")}, "no GPU 2 on node 1"},
		{[]string{arrive(1, 1, `,"gpu_type":"B"`), start(1, 1, "1:1")}, "cannot run on the GPUs of node 1"},
		{[]string{arrive(1, 1, ""), start(1, 2, "1:1")}, "it is a start, run 1"},
		{[]string{arrive(1, 1, ""), start(1, 1, "1:1"), start(1, 2, "1:0")}, "which runs"},
		{[]string{arrive(1, 1, ""), start(1, 1, "1:1"), preempt, start(1, 2, "1:1")}, "it is a resume, run 2"},
		{[]string{arrive(1, 1, ""), preempt}, "which does not run"},
		{[]string{arrive(1, 1, ""), strings.Split(arrive(1, 1, ""), "\n")[0]}, "arrives twice"},
		{[]string{start(1, 1, "0:0")}, "has not arrived"},
		{[]string{`{"time_s":0,"event":"node-down","node":1}`, arrive(1, 1, ""), start(1, 1, "1:0")}, "node 1 is down"},
		{[]string{`{"time_s":0,"event":"node-up","node":1}`}, "which is up"},
		{[]string{`{"time_s":0,"event":"node-down","node":2}`}, "there are 2"},
		{
			[]string{
				arrive(1, 1, ""), start(1, 1, "1:0"), `{"time_s":0,"event":"node-drain","node":1}`,
				`{"time_s":1,"event":"node-down","node":0}`,
			},
			"job 1 still runs on node 1",
		},
		{
			[]string{
				arrive(1, 1, ""), start(1, 1, "1:0"), `{"time_s":0,"event":"preempt","job":1,"run":1,"reason":"for-job","for":5}`,
				`{"time_s":1,"event":"node-down","node":0}`,
			},
			"preempted for job 5, which did not start",
		},
		{[]string{adopt(1, 2, "0:0-1"), adopt(2, 2, "1:0-1")}, ""},
		{[]string{adopt(1, 2, "0:0-1"), adopt(2, 2, "0:1;1:1")}, "GPU 1 of node 0 has another job"},
		{[]string{adopt(1, 2, "0-1:0-1")}, "adopt of job 1, run 4 on 4 GPUs: it takes 2 at most"},
		{[]string{adopt(1, 2, "0:0-1"), adopt(1, 2, "1:0-1")}, "arrives twice"},
		{[]string{adopt(1, 1, "0:2")}, "no GPU 2 on node 0"},
		{[]string{event("adopt", 1, `"gpus":1,"submit_s":0,"run":3,"last_run":6`), start(1, 4, "0:0")}, "it is a migrate, run 7"},
		{[]string{event("adopt", 1, `"gpus":1,"submit_s":0,"phase":"running"`)}, "adopt without run and on"},
		{[]string{event("adopt", 1, `"gpus":1,"submit_s":0,"phase":"asleep"`)}, `phase: got "asleep"`},
		{[]string{event("adopt", 1, `"gpus":1,"submit_s":0,"phase":"held"`), begin}, "is not admitted"},
		{[]string{cordon0, adopt(1, 1, "0:0"), adopt(2, 1, "1:0")}, ""},
		{[]string{adopt(1, 1, "0:0"), cordon0, arrive(2, 1, ""), start(2, 1, "0:1")}, "node 0 is down, drained or cordoned"},
		{[]string{adopt(1, 1, "0:0"), down0, later}, "job 1 still runs on node 0"},
		{[]string{drain0, adopt(1, 1, "0:0"), later}, ""},
		{[]string{occupy1, arrive1, start(1, 1, "0:1")}, "GPU 1 of node 0 is occupied"},
		{[]string{occupy1, adopt(1, 1, "0:1")}, ""},
		{[]string{
			occupy1, vacate1, arrive1, start(1, 1, "0:1"),
		}, ""},
		{[]string{
			occupy1, down0,
			`{"time_s":0,"event":"node-up","node":0}`, arrive1, start(1, 1, "0:1"),
		}, ""},
		{[]string{`{"time_s":0,"event":"occupy","node":0,"gpu":2}`}, "GPU 2 of node 0, which has 2"},
		{[]string{`{"time_s":0,"event":"occupy","node":0}`}, "occupy without gpu"},
		{[]string{
			adopt(1, 1, "0:1"), cordon0, `{"time_s":0,"event":"node-up","node":0,"gpus":1}`,
		}, "a job has its GPU 1"},
		{[]string{arrive1, begin, refuse, start(1, 2, "0:1")}, ""},
		{[]string{arrive1, begin, refuse, start(1, 1, "0:1")}, "it is a start, run 2"},
		{[]string{arrive1, refuse}, "refuse of job 1, which does not run"},
		{[]string{arrive1, begin, event("work", 1, `"run":2`)}, "its last run is 1"},
		{[]string{arrive1, begin, preempt, keep}, ""},
		{[]string{
			arrive1, begin, preempt, event("migrate", 1, `"run":2,"on":"0:1"`), event("refuse", 1, `"run":2`),
			keep, event("finish", 1, `"run":1`),
		}, ""},
		{[]string{arrive1, begin, keep}, "run 1, which was not stopped"},
		{[]string{arrive1, begin, fail, keep}, "which was not stopped"},
		{[]string{arrive1, begin, preempt, arrive(2, 1, ""), start(2, 1, "0:0"), keep}, "has another job"},
		{[]string{arrive2, start(1, 1, "0:0-1"), giveBack, arrive(2, 1, ""), start(2, 1, "0:0")}, ""},
		{[]string{arrive2, start(1, 1, "0:0-1"), event("give-back", 1, `"run":1,"on":"0:0-1"`)}, "give-back of job 1"},
		{[]string{arrive2, start(1, 1, "0:0-1"), event("give-back", 1, `"run":1,"on":"1:0"`)}, "give-back of job 1"},
		{[]string{arrive2, start(1, 1, "0:0-1"), event("give-back", 1, `"run":1,"on":""`)}, "give-back of job 1"},
	} {
		text := first + "\n" + strings.Join(test.lines, "\n") + "\n"
		_, err := read(text)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\ngot %v, want %q", strings.Join(test.lines, "\n"), err, test.want)
		}
		if place := fmt.Sprintf("log:%d: ", strings.Count(text, "\n")); err != nil && !strings.HasPrefix(err.Error(), place) {
			t.Errorf("got %v, want it at %s", err, place)
		}
	}
}

// TestLongValues puts a large value into each field: errors stay short.
func TestLongValues(t *testing.T) {
	line := `{"time_s":1,"event":"start","job":1,"run":1,"on":"0:0","reason":"overtakes","ready_s":2,"load_s":3}`
	for _, text := range []string{first, line} {
		for _, value := range []string{`"`, `1`, `[`, `{"a":`, `-`, `0.`} {
			big := value + strings.Repeat("7", 300_000)
			for i := range strings.Split(text, ":") {
				parts := strings.Split(text, ":")
				parts[i] = big + `"` + parts[i]
				changed := strings.Join(parts, ":") + "\n"
				if text == line {
					changed = first + "\n" + changed
				}
				if _, err := read(changed); err != nil && utf8.RuneCountInString(err.Error()) > 200 {
					t.Errorf("%d characters: %.300s", len(err.Error()), err)
				}
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(first + "\n" + `{"time_s":0,"event":"arrive","job":1,"gpus":1,"submit_s":0}` + "\n" +
		`{"time_s":0,"event":"admit","job":1}` + "\n" + `{"time_s":0,"event":"start","job":1,"run":1,"on":"0:0"}` + "\n")
	f.Add(first + "\n" + `{"time_s":1,"event":"node-up","node":2,"gpus":3}` + "\n" + `{"time_s":1,"event":"end","lines":3}` + "\n")
	f.Add(first + "\n" +
		`{"time_s":0,"event":"adopt","job":1,"gpus":1,"submit_s":0,"phase":"running","run":2,"last_run":3,"on":"0:1"}` +
		"\n" + `{"time_s":0,"event":"occupy","node":0,"gpu":1}` + "\n" +
		`{"time_s":1,"event":"keep","job":1,"run":2,"on":"0:1"}` + "\n")
	f.Add(first + "\n" + `{"time_s":1,"event":"give-back","job":2,"run":3,"on":"1:1"}` + "\n" +
		`{"time_s":1,"event":"refuse","job":2,"run":-1}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := read(text); err != nil && utf8.RuneCountInString(err.Error()) > 300 {
			t.Errorf("%s", err)
		}
	})
}
