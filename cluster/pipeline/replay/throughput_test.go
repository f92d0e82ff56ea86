package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// published are the measured throughputs of BERT-Large on 30 to 15 nodes.
var published = []string{
	"368.25", "362.22", "328.35", "327.78", "329.14", "307.21", "304.45", "278.53",
	"285.84", "260.31", "261.68", "243.56", "228.05", "209.21", "214.80", "192.30",
}

func publishedRun(t *testing.T) *Run {
	t.Helper()
	table := "nodes,samples_per_s\n"
	for i, samples := range published {
		table += fmt.Sprintf("%d,%s\n", 30-i, samples)
	}
	measured, err := ReadThroughput(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	trace := "time_s,node,event\n"
	for i := 1; i <= 15; i++ {
		trace += fmt.Sprintf("%d,%d,down\n", 3600*i, 30-i)
	}
	events, err := ReadTrace(strings.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	return &Run{
		Throughput:     measured,
		Trace:          events,
		Ready:          45 * time.Second,
		Pause:          2 * time.Second,
		SamplesPerStep: 8192,
	}
}

func TestPublishedAverage(t *testing.T) {
	report, err := publishedRun(t).Replay()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%.2f", report.SamplesPerSecond); got != "286.28" {
		t.Errorf("%s samples a second, published 286.28: %+v", got, report)
	}
	if whole := report.Useful + report.Lost + report.Idle + report.Unfinished; whole != report.End-report.First {
		t.Errorf("%v accounted for of %v", whole, report.End-report.First)
	}
}

// bySteps is the same simulation, written as the rules state it: one event at a time, from a list.
func bySteps(r *Run) (steps int, first, last int64) {
	ms := func(d time.Duration) int64 { return d.Milliseconds() }
	pause := ms(r.Pause)
	present := r.Throughput.Largest()
	nodes, first := present, ms(r.Ready)+pause
	last = first
	began, replan := first, int64(-1)
	length := func() int64 {
		if r.Throughput[nodes] == 0 {
			return 1 << 60
		}
		return 1000 * r.SamplesPerStep * 1_000_000 / r.Throughput[nodes]
	}
	stop := ms(r.Trace[len(r.Trace)-1].At)
	for now, next := int64(0), 0; now < stop; now++ {
		for ; next < len(r.Trace)-1 && ms(r.Trace[next].At) == now; next++ {
			if present += change(r.Trace[next]); !r.Trace[next].Up || r.Throughput[nodes] == 0 && replan < 0 {
				replan = now + pause
			}
		}
		if now == replan {
			nodes, began, replan = present, max(now, first), -1
		}
		if now == began+length() {
			steps, began, last = steps+1, now, now
		}
	}
	return steps, first, last
}

func TestAgainstMilliseconds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		run := &Run{
			Throughput:     Throughput{},
			Ready:          time.Duration(r.IntN(50)) * time.Millisecond,
			Pause:          time.Duration(1+r.IntN(60)) * time.Millisecond,
			SamplesPerStep: 1 + r.Int64N(20),
		}
		for nodes := range 5 {
			run.Throughput[nodes] = r.Int64N(3) * (1_000_000 + r.Int64N(400_000_000))
		}
		at, nodes := 0, 4
		for range 1 + r.IntN(12) {
			at += r.IntN(200)
			up := nodes == 0 || nodes < 4 && r.IntN(2) == 0
			nodes += change(Event{Up: up})
			run.Trace = append(run.Trace, Event{At: time.Duration(at) * time.Millisecond, Up: up})
		}
		if run.check() != nil {
			continue
		}
		report, err := run.Replay()
		if err != nil {
			t.Fatal(err)
		}
		steps, first, last := bySteps(run)
		if report.Steps != steps || report.First.Milliseconds() != first || report.Last.Milliseconds() != last {
			t.Fatalf(
				"%+v: %d steps from %v to %v, millisecond by millisecond %d from %d to %d",
				run,
				report.Steps,
				report.First,
				report.Last,
				steps,
				first,
				last,
			)
		}
	}
}

func TestBadTables(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "line 1: no header; wanted nodes,samples_per_s",
		"nodes,speed\n":                   "line 1: no column samples_per_s; wanted nodes,samples_per_s",
		"nodes,samples_per_s\n":           "no throughput was measured; wanted a line for each number of nodes",
		"nodes,samples_per_s\n4,1\n4,2\n": "line 3: 4 nodes are listed twice; wanted each number once",
		"nodes,samples_per_s\n4,-1\n":     `line 2: "-1" samples a second; wanted a number, 0 if nothing runs`,
		"nodes,samples_per_s\nx,1\n":      `line 2: "x" nodes; wanted a number of nodes`,
	} {
		if _, err := ReadThroughput(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"time_s,node,event\n":                     "the trace has no events; wanted at least one: the run ends at the last",
		"time_s,node,event\n5,1,down\n4,2,down\n": "line 3: 4s comes after 5s; wanted times in ascending order",
		"time_s,node,event\n5,1,down\n6,1,down\n": "line 3: node 1 is down for the second time; wanted up and down in turns",
		"time_s,node,event\n5,1,gone\n": `line 2: "gone" is not an event; ` +
			"wanted seconds, a node's number, up or down",
		"time_s,node,event\n-5,1,up\n": "line 2: time -5 is before the start; wanted seconds, a node's " +
			"number, up or down",
	} {
		if _, err := ReadTrace(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestMadeTraces(t *testing.T) {
	f := Failures{
		Nodes:     64,
		Between:   6 * time.Hour,
		BackAfter: 30 * time.Minute,
		Together:  4,
		Length:    1000 * time.Hour,
		Seed:      7,
	}
	var text strings.Builder
	if err := WriteTrace(&text, f.Generate()); err != nil {
		t.Fatal(err)
	}
	events, err := ReadTrace(strings.NewReader(text.String()))
	if err != nil || !slices.Equal(events, f.Generate()) {
		t.Fatalf("written and read again, or made again, it differs: %v", err)
	}
	down := 0
	for _, e := range events {
		if !e.Up {
			down++
		}
	}
	// A group of four is down once in 6.5 hours.
	if want := 64 * 1000 / 6.5; float64(down) < 0.9*want || float64(down) > 1.1*want {
		t.Errorf("%d nodes went down, want about %.0f", down, want)
	}
}

// TestKept compares runs that keep what living pipelines have computed with the definition, second
// by second: a step is computed at the present rate, and a failure takes its pipeline's part away.
func TestKept(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		run := &Run{
			Throughput: Throughput{}, Ready: 5 * time.Second, Pause: time.Duration(1+r.IntN(9)) * time.Second, SamplesPerStep: 100,
			PipelineNodes: 1 + r.IntN(4), Backup: time.Duration(r.IntN(3)) * 7 * time.Second,
		}
		const most = 12
		for nodes := 1; nodes <= most; nodes++ {
			run.Throughput[nodes] = 1_000_000 + r.Int64N(3_000_000)
		}
		at := 20
		for present := most; len(run.Trace) < 20; {
			at += r.IntN(300)
			up := present == 2 || present < most && r.IntN(3) == 0
			run.Trace = append(run.Trace, Event{At: time.Duration(at) * time.Second, Up: up})
			present += change(run.Trace[len(run.Trace)-1])
		}
		report, err := run.Replay()
		if err != nil {
			t.Fatal(err)
		}
		sum := report.Useful + report.Lost + report.Paused + report.Idle + report.Unfinished
		if first := max(0, report.End-report.First); (sum - first).Abs() > time.Millisecond {
			t.Fatalf("%v is accounted for of %v: %+v", sum, first, report)
		}
		// Less, where a failure comes at the end of a step, which a tick may miss.
		if want := bySeconds(run); want < float64(report.Steps)-0.5 || want > float64(report.Steps)+1.02 {
			t.Fatalf("%d steps, want %.2f: %+v", report.Steps, want, run)
		}
	}
}

// bySeconds returns how many steps a run makes, with the part of the last one, in steps of 10 ms.
func bySeconds(r *Run) (done float64) {
	const tick = 0.01
	ticks := func(d time.Duration) int { return int(d / (10 * time.Millisecond)) }
	nodes, next, busy := r.Throughput.Largest(), 0, ticks(r.Ready+r.Pause)
	present, took, joins := nodes, 0.0, false // took is how long the step was computed
	for now := range ticks(r.Trace[len(r.Trace)-1].At) {
		for ; next < len(r.Trace)-1 && ticks(r.Trace[next].At) <= now; next++ {
			if present += change(r.Trace[next]); r.Trace[next].Up {
				joins = true
				continue // it waits for the end of the step
			}
			fresh := took // since the last backup
			if every := r.Backup.Seconds(); every > 0 {
				fresh = math.Mod(took, every)
			}
			lost := fresh * min(1, float64(r.PipelineNodes)/float64(nodes))
			done -= (done - math.Floor(done)) * lost / max(took, tick)
			took -= lost
			busy = now + ticks(r.Pause)
		}
		if now < busy {
			continue
		}
		if busy > 0 {
			nodes, busy, joins = present, 0, false
		}
		before := math.Floor(done)
		done += tick * float64(r.Throughput[nodes]) / 1e6 / float64(r.SamplesPerStep)
		if took += tick; math.Floor(done) > before {
			took = 0
			if joins {
				busy = now + ticks(r.Pause)
			}
		}
	}
	return done
}
