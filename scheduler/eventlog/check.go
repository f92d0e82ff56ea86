package eventlog

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/internal/words"
)

// Report is what a log that Check found consistent has.
type Report struct {
	Events      int64
	Jobs        int // that arrived
	Done        int
	GivenUp     int
	Withdrawn   int
	Preemptions int
	Failures    int // of runs
	Running     int // jobs that had GPUs at the end
	Waiting     int // that had none
	Until       time.Duration
	// Complete is set if the log has its last line, Partial if that says that the run was cut off.
	Complete, Partial bool
}

// Check reads a log to its end and returns an error for the first line that cannot be true: a GPU
// that jobs have more than whole, a job on fewer GPUs than it takes, on a node that is down or of
// another type, a run that ends and did not begin.
func Check(r *Reader) (Report, error) {
	c := checker{r: r, jobs: map[cluster.JobID]*checked{}, used: map[cluster.GPU]int{}}
	for i := range r.Header.Nodes {
		c.nodes = append(c.nodes, machine{Node: r.Header.Nodes[i]})
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c.report, err
		}
		c.report.Events++
		if e.At > c.report.Until {
			if err := c.timeOver(); err != nil {
				return c.report, err
			}
		}
		c.report.Until = e.At
		if err := c.event(&e); err != nil {
			return c.report, err
		}
	}
	for _, j := range c.jobs {
		if j.running {
			c.report.Running++
		} else {
			c.report.Waiting++
		}
	}
	c.report.Complete = r.Ended()
	return c.report, c.timeOver()
}

// checker is the state of the cluster as the log tells it.
type checker struct {
	r      *Reader
	report Report
	jobs   map[cluster.JobID]*checked
	nodes  []machine
	used   map[cluster.GPU]int // thousandths
	// wanted are the jobs for which others were preempted at this time and that have not started.
	wanted map[cluster.JobID]bool
	// closed are the nodes that were closed at this time.
	closed []cluster.NodeID
}

type machine struct {
	cluster.Node
	closed bool
}

type checked struct {
	cluster.Job
	admitted, running bool
	failed            bool
	run               int
	on                cluster.Placement
}

// timeOver checks what must hold when all events of a time have been read.
func (c *checker) timeOver() error {
	if len(c.wanted) > 0 {
		id := slices.Min(slices.Collect(maps.Keys(c.wanted)))
		return c.r.wrong("at %s s, jobs were preempted for job %d, which did not start",
			words.AppendSeconds(nil, c.report.Until), id)
	}
	if len(c.closed) == 0 {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[id]
		if node := nodeOf(j.on, c.closed); j.running && node >= 0 {
			return c.r.wrong("job %d still runs on node %d, which was closed", id, node)
		}
	}
	c.closed = c.closed[:0]
	return nil
}

// event applies an event.
func (c *checker) event(e *Event) error {
	switch {
	case e.Kind == End:
		c.report.Partial = e.Partial
		return nil
	case e.Kind.ofNode():
		return c.node(e)
	case e.Kind == Reject:
		return nil
	case e.Kind == Arrive:
		return c.arrive(e)
	}
	j := c.jobs[e.Job]
	if j == nil {
		return c.r.wrong("%s of job %d, which has not arrived or has ended", e.Kind, e.Job)
	}
	switch {
	case e.Kind == Hold || e.Kind == Admit:
		if j.admitted {
			return c.r.wrong("%s of job %d, which was admitted", e.Kind, e.Job)
		}
		j.admitted = e.Kind == Admit
	case e.Kind == Promise:
		if j.running || !j.admitted || e.Start < e.At {
			return c.r.wrong("promise to job %d, which runs, is not admitted, or for the past", e.Job)
		}
	case e.Kind.runs():
		return c.start(e, j)
	default:
		return c.stop(e, j)
	}
	return nil
}

// arrive adds a job.
func (c *checker) arrive(e *Event) error {
	if c.jobs[e.Job] != nil {
		return c.r.wrong("job %d arrives twice", e.Job)
	}
	f := e.Facts
	if f.GPUs < 1 || f.Share < 1 || f.Share > cluster.WholeGPU || f.MinGPUs > f.MaxGPUs || f.MinGPUs < 0 {
		return c.r.wrong("job %d asks for %d GPUs of share %d, %d to %d", e.Job, f.GPUs, f.Share, f.MinGPUs, f.MaxGPUs)
	}
	c.jobs[e.Job] = &checked{Job: *f}
	c.report.Jobs++
	return nil
}

// node opens or closes a node.
func (c *checker) node(e *Event) error {
	at := int(e.Node)
	if e.Kind == Up && at == len(c.nodes) && e.Machine != nil {
		c.nodes = append(c.nodes, machine{Node: *e.Machine})
		return nil
	}
	if at < 0 || at >= len(c.nodes) {
		return c.r.wrong("%s of node %d: there are %d", e.Kind, e.Node, len(c.nodes))
	}
	n := &c.nodes[at]
	if e.Kind == Up {
		if !n.closed {
			return c.r.wrong("node-up of node %d, which is up", e.Node)
		}
		n.closed = false
		if e.Machine != nil {
			n.Node = *e.Machine
		}
		c.closed = slices.DeleteFunc(c.closed, func(id cluster.NodeID) bool { return id == e.Node })
		return nil
	}
	n.closed = true
	c.closed = append(c.closed, e.Node)
	return nil
}

// start gives GPUs to a job.
func (c *checker) start(e *Event, j *checked) error {
	before := job{on: j.on, run: j.run, failed: j.failed}
	switch kind := before.kindOf(e.On); {
	case j.running || !j.admitted:
		return c.r.wrong("%s of job %d, which runs or is not admitted", e.Kind, e.Job)
	case kind != e.Kind || e.Run != j.run+1:
		return c.r.wrong("%s of job %d, run %d: it is a %s, run %d", e.Kind, e.Job, e.Run, kind, j.run+1)
	case e.Ready < e.At:
		return c.r.wrong("%s of job %d: ready before it starts", e.Kind, e.Job)
	}
	least, most := j.GPUs, j.GPUs
	if j.MaxGPUs > 0 {
		least, most = j.MinGPUs, j.MaxGPUs
	}
	if n := len(e.On); n < least || n > most {
		return c.r.wrong("%s of job %d on %d GPUs: it takes %s", e.Kind, e.Job, n, span(least, most))
	}
	for _, gpu := range e.On {
		if err := c.take(gpu, e, j); err != nil {
			return err
		}
	}
	j.on, j.run, j.running, j.failed = e.On, e.Run, true, false
	delete(c.wanted, e.Job)
	return nil
}

// span returns "2", or "2 to 4".
func span(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// take gives one GPU to a job.
func (c *checker) take(gpu cluster.GPU, e *Event, j *checked) error {
	if int(gpu.Node) >= len(c.nodes) || int(gpu.Index) >= c.nodes[gpu.Node].GPUs {
		return c.r.wrong("%s of job %d: there is no GPU %d on node %d", e.Kind, e.Job, gpu.Index, gpu.Node)
	}
	n := &c.nodes[gpu.Node]
	c.used[gpu] += j.Share
	switch {
	case c.used[gpu] > cluster.WholeGPU:
		return c.r.wrong("%s of job %d: GPU %d of node %d has another job", e.Kind, e.Job, gpu.Index, gpu.Node)
	case n.closed:
		return c.r.wrong("%s of job %d: node %d is down or drained", e.Kind, e.Job, gpu.Node)
	case j.GPUType != "" && j.GPUType != n.GPUType, n.GPUMemoryBytes > 0 && j.GPUMemoryBytes > n.GPUMemoryBytes:
		return c.r.wrong("%s of job %d: it cannot run on the GPUs of node %d", e.Kind, e.Job, gpu.Node)
	}
	return nil
}

// stop takes a job's GPUs away, or ends it.
func (c *checker) stop(e *Event, j *checked) error {
	if !e.Kind.ends() && !j.running {
		return c.r.wrong("%s of job %d, which does not run", e.Kind, e.Job)
	}
	if e.Run != j.run {
		return c.r.wrong("%s of job %d, run %d: its last run is %d", e.Kind, e.Job, e.Run, j.run)
	}
	if j.running {
		for _, gpu := range j.on {
			if c.used[gpu] -= j.Share; c.used[gpu] == 0 {
				delete(c.used, gpu)
			}
		}
	}
	j.running = false
	switch e.Kind {
	case Preempt:
		c.report.Preemptions++
		if e.Reason == ForJob {
			if c.wanted == nil {
				c.wanted = map[cluster.JobID]bool{}
			}
			c.wanted[e.For] = true
		}
	case Fail:
		j.failed = true
		c.report.Failures++
	case Finish:
		c.report.Done++
	case GiveUp:
		c.report.GivenUp++
	case Withdraw:
		c.report.Withdrawn++
	default:
	}
	if e.Kind.ends() {
		delete(c.jobs, e.Job)
	}
	return nil
}
