package replay

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// Throughput is the measured throughput for each number of nodes, in millionths of a sample per
// second.
type Throughput map[int]int64

// ReadThroughput reads CSV with the columns nodes and samples_per_s.
func ReadThroughput(from io.Reader) (Throughput, error) {
	measured := Throughput{}
	err := readColumns(from, []string{"nodes", "samples_per_s"}, func(at string, fields []string) error {
		nodes, err := strconv.Atoi(fields[0])
		if err != nil || nodes < 0 {
			return &pipeline.InputError{
				Where:   at,
				Problem: fmt.Sprintf("%q nodes", fields[0]),
				Want:    "a number of nodes",
			}
		}
		if _, twice := measured[nodes]; twice {
			return &pipeline.InputError{
				Where:   at,
				Problem: fmt.Sprintf("%d nodes are listed twice", nodes),
				Want:    "each number once",
			}
		}
		samples, err := pipeline.ParseMillionths(fields[1])
		if err != nil || samples < 0 {
			return &pipeline.InputError{
				Where:   at,
				Problem: fmt.Sprintf("%q samples a second", fields[1]),
				Want:    "a number, 0 if nothing runs",
			}
		}
		measured[nodes] = samples
		return nil
	})
	if err == nil && len(measured) == 0 {
		err = &pipeline.InputError{Problem: "no throughput was measured", Want: "a line for each number of nodes"}
	}
	return measured, err
}

// Largest returns the number of nodes that a run starts with.
func (t Throughput) Largest() (nodes int) {
	for n := range t {
		nodes = max(nodes, n)
	}
	return nodes
}

// Run is the input of a replay by throughput.
type Run struct {
	Throughput     Throughput
	Trace          []Event
	Ready          time.Duration // until the nodes are ready
	Pause          time.Duration // for a start, and for each re-plan
	SamplesPerStep int64
	// PipelineNodes is how many nodes a pipeline has. If it is not 0, a failure stops all pipelines at
	// once, and what the others have computed of the step counts after the re-plan. If it is 0, the
	// step goes on until the re-plan, and is lost then.
	PipelineNodes int
	// Backup is how long a pipeline computes until others have that, too; 0: they never have. What is
	// lost is then what it has computed since.
	Backup time.Duration
}

// Report is the result of a run. Useful, Lost, Paused, Idle, Unfinished and Checkpoints are from
// the start of the first step to the trace's end.
type Report struct {
	Steps, LostSteps                       int
	First, Last, End                       time.Duration // the first step's start, the last one's and the trace's end
	Useful, Lost, Paused, Idle, Unfinished time.Duration
	Checkpoints                            time.Duration // with restarts
	SamplesPerSecond                       float64
}

// never is later than any time.
const never = time.Duration(1) << 62

// maxTime bounds every time that is read, so that sums of a few are before never: 36 years.
const maxTime = time.Duration(1) << 60

// runState is the state of a run.
type runState struct {
	*Run
	nodes   int // of the current step
	present int
	began   time.Duration // start of the current step
	ends    time.Duration
	// kept is the part of the current step, in billionths, that was computed before a failure, and
	// took the time that it took.
	kept   int64
	took   time.Duration
	paused bool
	// replanned is when the re-plan ends that has begun, and joins says that new nodes wait for the
	// end of the step.
	replanned time.Duration
	joins     bool
	report    Report
}

// whole is a step in the unit of kept.
const whole = int64(1_000_000_000)

// Replay runs a trace.
func (r *Run) Replay() (*Report, error) {
	s := &runState{Run: r, nodes: r.Throughput.Largest(), present: r.Throughput.Largest(), replanned: never}
	if err := r.check(); err != nil {
		return nil, err
	}
	s.report.First, s.report.Last = r.Ready+r.Pause, r.Ready+r.Pause
	s.begin(s.report.First)
	for i, e := range r.Trace {
		s.until(e.At)
		if i == len(r.Trace)-1 {
			s.finish(e.At)
			break
		}
		if r.PipelineNodes > 0 && !e.Up {
			s.interrupt(e.At)
		}
		s.present += change(e)
		if err := r.Throughput.check(e.At, s.present); err != nil {
			return nil, err
		}
		if !e.Up || s.ends == never && s.replanned == never {
			s.replanned, s.joins = e.At+r.Pause, false
		} else if r.PipelineNodes > 0 && s.replanned == never {
			s.joins = true
		} // else new nodes wait: they are used after the next failure
	}
	return &s.report, nil
}

func (r *Run) check() error {
	if r.SamplesPerStep < 1 || r.SamplesPerStep > 1<<30 {
		return &pipeline.InputError{Where: "samples per step", Problem: fmt.Sprint(r.SamplesPerStep), Want: "1 to 2^30"}
	}
	if r.PipelineNodes < 0 {
		return &pipeline.InputError{Where: "nodes of a pipeline", Problem: fmt.Sprint(r.PipelineNodes), Want: "0 or more"}
	}
	if r.Backup < 0 {
		return &pipeline.InputError{Where: "time between backups", Problem: r.Backup.String(), Want: "0 or more"}
	}
	if r.Pause < 0 || r.Ready < 0 || r.Pause > maxTime || r.Ready > maxTime {
		return &pipeline.InputError{
			Problem: fmt.Sprintf("a pause of %v, ready after %v", r.Pause, r.Ready),
			Want:    "0 to 36 years",
		}
	}
	for nodes, samples := range r.Throughput {
		if samples > 0 && r.stepOf(samples) == 0 {
			return &pipeline.InputError{
				Where: fmt.Sprintf("%d nodes", nodes), Problem: "a step takes less than a millisecond",
				Want: "a lower throughput, or more samples a step",
			}
		}
	}
	return nil
}

// stepOf returns the time of a step, in whole milliseconds.
func (r *Run) stepOf(samples int64) time.Duration {
	return min(time.Duration(1000*1_000_000*r.SamplesPerStep/samples), never/time.Millisecond) * time.Millisecond
}

// change returns the change of the number of nodes.
func change(e Event) int {
	if e.Up {
		return +1
	}
	return -1
}

// check returns an error if the number of nodes after an event has no throughput.
func (t Throughput) check(at time.Duration, nodes int) error {
	if _, ok := t[nodes]; ok {
		return nil
	}
	return &pipeline.InputError{
		Where:   fmt.Sprintf("event at %s s", pipeline.Seconds(at)),
		Problem: fmt.Sprintf("leaves %d nodes", nodes),
		Want:    fmt.Sprintf("a number that has a throughput: %v", t.counts()),
	}
}

// counts returns the node counts that have a throughput, in ascending order.
func (t Throughput) counts() (counts []int) {
	for n := range t {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return counts
}

// begin starts a step, or the rest of one.
func (s *runState) begin(at time.Duration) {
	s.began, s.ends, s.paused = at, never, false
	if samples := s.Throughput[s.nodes]; samples > 0 && s.stepOf(samples) < never-at {
		s.ends = at + part(s.stepOf(samples), whole-s.kept)
	}
}

// part returns a part of a time, in billionths.
func part(of time.Duration, billionths int64) time.Duration {
	return time.Duration(float64(of) * float64(billionths) / float64(whole))
}

// interrupt stops the current step at a failure. What the pipeline of the lost node has computed of
// it is lost.
func (s *runState) interrupt(at time.Duration) {
	if at <= s.report.First {
		return
	}
	if !s.paused && s.ends != never {
		s.kept += int64(float64(whole-s.kept) * float64(at-s.began) / float64(max(s.ends-s.began, 1)))
		s.report.Useful += at - s.began
		s.took += at - s.began
		s.began = at
	}
	lost := whole * int64(min(s.PipelineNodes, s.nodes)) / int64(max(s.nodes, 1))
	fresh := sinceBackup(s.took, s.Backup)
	wasted := part(fresh, lost)
	s.kept -= int64(float64(s.kept) * float64(wasted) / float64(max(s.took, 1)))
	s.took -= wasted
	s.report.Useful -= wasted
	s.report.Lost += wasted
	s.account(at)
	s.began, s.ends, s.paused = at, never, true
}

// sinceBackup returns how much of what was computed came after the last backup.
func sinceBackup(took, every time.Duration) time.Duration {
	if every == 0 {
		return took
	}
	return took % every
}

// account counts a time in which no step was made.
func (s *runState) account(at time.Duration) {
	if s.paused {
		s.report.Paused += at - s.began
		return
	}
	s.report.Idle += at - s.began
}

// until counts the steps that end before a time, and makes a re-plan that does.
func (s *runState) until(at time.Duration) {
	for s.replanned < at || s.joins && s.ends < at {
		if s.replanned < at {
			end := s.replanned
			s.steps(end)
			s.replan(end)
			continue
		}
		s.one()
		s.began, s.ends, s.paused, s.replanned = s.ends, never, true, s.ends+s.Pause
	}
	s.steps(at)
}

// one counts the step that has begun.
func (s *runState) one() {
	s.report.Steps++
	s.report.Useful += s.ends - s.began
	s.report.Last = s.ends
	s.kept, s.took = 0, 0
}

// steps counts the steps that end before a time; each is followed by the next.
func (s *runState) steps(at time.Duration) {
	if s.kept > 0 && s.ends < at { // the rest of a step
		s.one()
		s.begin(s.ends)
	}
	if s.ends == never || s.ends >= at {
		return
	}
	step := s.ends - s.began
	steps := (at - 1 - s.began) / step
	s.report.Steps += int(steps)
	s.report.Useful += steps * step
	s.report.Last = s.began + steps*step
	s.begin(s.report.Last)
}

// replan discards the current step and begins one with the present nodes. Before the first step
// there is nothing to lose.
func (s *runState) replan(at time.Duration) {
	switch {
	case at <= s.report.First:
	case s.paused:
		s.account(at)
	default:
		s.abandonStep(at)
	}
	s.nodes, s.joins, s.replanned = s.present, false, never
	s.begin(max(at, s.report.First))
}

// abandonStep accounts for a step that is not completed. If it never would have been, the time is
// idle.
func (s *runState) abandonStep(at time.Duration) {
	if s.ends == never {
		s.account(at)
		return
	}
	s.report.LostSteps++
	s.report.Lost += at - s.began + s.took
	s.report.Useful -= s.took
	s.kept, s.took = 0, 0
}

// finish accounts for the step that the trace's end cuts off.
func (s *runState) finish(at time.Duration) {
	s.report.End = at
	s.report.Unfinished = max(0, at-s.began)
	if took := s.report.Last - s.report.First; took > 0 {
		s.report.SamplesPerSecond = float64(int64(s.report.Steps)*s.SamplesPerStep) / took.Seconds()
	}
}
