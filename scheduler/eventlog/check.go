package eventlog

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler/cluster"
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
	Adopted     int // jobs that were taken over; they count in Jobs, too
	Refused     int // runs that could not begin
	Kept        int // runs that were to end, and did not
	Running     int // jobs that had GPUs at the end
	Waiting     int // that had none
	Until       time.Duration
	// Complete is set if the log has its last line, Partial if that says that the run was cut off.
	Complete, Partial bool
}

// Check reads a log to its end and returns an error for the first line that cannot be true: a GPU
// that jobs have more than whole, a job that starts on fewer GPUs than it takes, on a node that is
// closed or of another type, or on an occupied GPU, a run that ends and did not begin, a job that
// starts later than it was promised although nothing broke the promise.
func Check(r *Reader) (Report, error) {
	c := checker{
		r: r, jobs: map[cluster.JobID]*checked{}, used: map[cluster.GPU]int{}, occupied: map[cluster.GPU]bool{},
		promises: newPromises(&r.Header),
	}
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
	// occupied GPUs are used by something foreign.
	occupied map[cluster.GPU]bool
	promises promises
	// wanted are the jobs for which others were preempted at this time and that have not started.
	wanted map[cluster.JobID]bool
	// closed are the nodes that were closed at this time.
	closed []cluster.NodeID
}

type machine struct {
	cluster.Node
	closed bool
}

// checked is a job. One that stays was adopted or kept: it may be on a node that was closed before.
type checked struct {
	cluster.Job
	job
	stays bool
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
		if node := nodeOf(j.last.on, c.closed); j.running && !j.stays && node >= 0 {
			return c.r.wrong("job %d still runs on node %d, which was closed", id, node)
		}
	}
	c.closed = c.closed[:0]
	return nil
}

// event applies an event.
func (c *checker) event(e *Event) error {
	if e.Kind.reported() {
		c.promises.setback = c.report.Events
	}
	switch {
	case e.Kind == End:
		c.report.Partial = e.Partial
		return nil
	case e.Kind == Choose:
		return nil
	case e.Kind.ofNode():
		return c.node(e)
	case e.Kind == Reject:
		return nil
	case e.Kind.describes():
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
		return c.promise(e)
	case e.Kind.runs():
		return c.start(e, j)
	case e.Kind == Keep:
		return c.keep(e, j)
	default:
		return c.ofRun(e, j)
	}
	return nil
}

// arrive adds a job that arrives or is adopted.
func (c *checker) arrive(e *Event) error {
	if c.jobs[e.Job] != nil {
		return c.r.wrong("job %d arrives twice", e.Job)
	}
	f := e.Facts
	if f.GPUs < 1 || f.Share < 1 || f.Share > cluster.WholeGPU || f.MinGPUs > f.MaxGPUs || f.MinGPUs < 0 {
		return c.r.wrong("job %d asks for %d GPUs of share %d, %d to %d", e.Job, f.GPUs, f.Share, f.MinGPUs, f.MaxGPUs)
	}
	j := &checked{Job: *f}
	c.jobs[e.Job] = j
	c.report.Jobs++
	if e.Kind == Arrive {
		return nil
	}
	c.report.Adopted++
	j.job = *adopted(e)
	if j.running {
		j.running = false
		return c.goOn(e, j)
	}
	return nil
}

// keep lets a run that was to end go on.
func (c *checker) keep(e *Event, j *checked) error {
	if j.running || e.Run != j.stopped {
		return c.r.wrong("keep of job %d, run %d, which was not stopped", e.Job, e.Run)
	}
	c.report.Kept++
	return c.goOn(e, j)
}

// goOn gives a job the GPUs that it has in truth: their nodes may be closed, and foreign programs
// may use them.
func (c *checker) goOn(e *Event, j *checked) error {
	if _, most := j.bounds(); len(e.On) < 1 || len(e.On) > most || e.Run < 1 {
		return c.r.wrong("%s of job %d, run %d on %d GPUs: it takes %d at most", e.Kind, e.Job, e.Run, len(e.On), most)
	}
	for _, gpu := range e.On {
		if err := c.hold(gpu, e, j); err != nil {
			return err
		}
	}
	j.goOn(e.Run, e.On)
	j.stays = true
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
	c.promises.setback = c.report.Events
	n := &c.nodes[at]
	switch {
	case e.Kind.ofGPU():
		return c.gpu(e, n)
	case e.Kind == Cordon:
		n.closed = true
		return nil
	case e.Kind == Up:
		return c.reopen(e, n)
	}
	n.closed = true
	c.closed = append(c.closed, e.Node)
	for _, j := range c.jobs {
		j.stays = j.stays && nodeOf(j.last.on, []cluster.NodeID{e.Node}) < 0
	}
	if e.Kind == Down {
		maps.DeleteFunc(c.occupied, func(gpu cluster.GPU, _ bool) bool { return gpu.Node == e.Node })
	}
	return nil
}

// gpu applies an event of a GPU.
func (c *checker) gpu(e *Event, n *machine) error {
	if e.GPU < 0 || int(e.GPU) >= n.GPUs {
		return c.r.wrong("%s of GPU %d of node %d, which has %d", e.Kind, e.GPU, e.Node, n.GPUs)
	}
	c.occupied[cluster.GPU{Node: e.Node, Index: e.GPU}] = e.Kind == Occupy
	return nil
}

// reopen opens a node.
func (c *checker) reopen(e *Event, n *machine) error {
	if !n.closed {
		return c.r.wrong("node-up of node %d, which is up", e.Node)
	}
	stopping := slices.Contains(c.closed, e.Node) // its jobs stop at this time
	n.closed = false
	c.closed = slices.DeleteFunc(c.closed, func(id cluster.NodeID) bool { return id == e.Node })
	if e.Machine == nil {
		return nil
	}
	n.Node = *e.Machine
	gone := func(gpu cluster.GPU) bool { return gpu.Node == e.Node && int(gpu.Index) >= n.GPUs }
	for gpu := range c.used {
		if gone(gpu) && !stopping {
			return c.r.wrong("node-up of node %d with %d GPUs: a job has its GPU %d", e.Node, n.GPUs, gpu.Index)
		}
	}
	maps.DeleteFunc(c.occupied, func(gpu cluster.GPU, _ bool) bool { return gone(gpu) })
	return nil
}

// start gives GPUs to a job.
func (c *checker) start(e *Event, j *checked) error {
	switch kind := j.kindOf(e.On); {
	case j.running || !j.admitted:
		return c.r.wrong("%s of job %d, which runs or is not admitted", e.Kind, e.Job)
	case kind != e.Kind || e.Run != j.highest+1:
		return c.r.wrong("%s of job %d, run %d: it is a %s, run %d", e.Kind, e.Job, e.Run, kind, j.highest+1)
	case e.Ready < e.At:
		return c.r.wrong("%s of job %d: ready before it starts", e.Kind, e.Job)
	}
	least, most := j.bounds()
	if n := len(e.On); n < least || n > most {
		return c.r.wrong("%s of job %d on %d GPUs: it takes %s", e.Kind, e.Job, n, span(least, most))
	}
	for _, gpu := range e.On {
		if err := c.take(gpu, e, j); err != nil {
			return err
		}
	}
	if err := c.keeps(e, e.At); err != nil {
		return err
	}
	c.expect(e, j)
	j.begin(e.Run, e.On)
	j.stays = false
	delete(c.wanted, e.Job)
	return nil
}

// bounds returns the fewest and the most GPUs that a job takes.
func (j *checked) bounds() (least, most int) {
	if j.MaxGPUs > 0 {
		return j.MinGPUs, j.MaxGPUs
	}
	return j.GPUs, j.GPUs
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
	if err := c.hold(gpu, e, j); err != nil {
		return err
	}
	switch n := &c.nodes[gpu.Node]; {
	case n.closed:
		return c.r.wrong("%s of job %d: node %d is down, drained or cordoned", e.Kind, e.Job, gpu.Node)
	case c.occupied[gpu]:
		return c.r.wrong("%s of job %d: GPU %d of node %d is occupied", e.Kind, e.Job, gpu.Index, gpu.Node)
	case j.GPUType != "" && j.GPUType != n.GPUType, n.GPUMemoryBytes > 0 && j.GPUMemoryBytes > n.GPUMemoryBytes:
		return c.r.wrong("%s of job %d: it cannot run on the GPUs of node %d", e.Kind, e.Job, gpu.Node)
	}
	return nil
}

// hold adds a job to those that have a GPU.
func (c *checker) hold(gpu cluster.GPU, e *Event, j *checked) error {
	if int(gpu.Node) >= len(c.nodes) || int(gpu.Index) >= c.nodes[gpu.Node].GPUs {
		return c.r.wrong("%s of job %d: there is no GPU %d on node %d", e.Kind, e.Job, gpu.Index, gpu.Node)
	}
	c.used[gpu] += j.Share
	if c.used[gpu] > cluster.WholeGPU {
		return c.r.wrong("%s of job %d: GPU %d of node %d has another job", e.Kind, e.Job, gpu.Index, gpu.Node)
	}
	return nil
}

// release takes GPUs of a job away.
func (c *checker) release(on cluster.Placement, j *checked) {
	for _, gpu := range on {
		if c.used[gpu] -= j.Share; c.used[gpu] == 0 {
			delete(c.used, gpu)
		}
	}
}

// ofRun applies what happens to a run, or ends the job.
func (c *checker) ofRun(e *Event, j *checked) error {
	if !e.Kind.ends() && !j.running {
		return c.r.wrong("%s of job %d, which does not run", e.Kind, e.Job)
	}
	if e.Run != j.last.run {
		return c.r.wrong("%s of job %d, run %d: its last run is %d", e.Kind, e.Job, e.Run, j.last.run)
	}
	if e.Kind == Preempt && j.Fixed && e.Reason != NodeDrained {
		return c.r.wrong("preempt of job %d, which is fixed", e.Job)
	}
	switch {
	case e.Kind == Work:
		return nil
	case e.Kind == GiveBack:
		return c.giveBack(e, j)
	case j.running:
		c.release(j.last.on, j)
	}
	c.runEnds(e)
	c.end(e, j)
	return nil
}

// giveBack leaves a job some of its GPUs.
func (c *checker) giveBack(e *Event, j *checked) error {
	gone := j.last.on.Without(e.On)
	if len(e.On) == 0 || len(gone) == 0 || len(gone)+len(e.On) != len(j.last.on) {
		return c.r.wrong("give-back of job %d: it has some of these GPUs, or all that it had", e.Job)
	}
	c.release(gone, j)
	j.last.on = e.On
	return nil
}

// end counts the end of a run, or of a job. Its GPUs are free.
func (c *checker) end(e *Event, j *checked) {
	switch e.Kind {
	case Refuse:
		j.refuse()
		c.report.Refused++
	case Preempt:
		j.stop(false, true)
		c.report.Preemptions++
		if e.Reason == ForJob {
			if c.wanted == nil {
				c.wanted = map[cluster.JobID]bool{}
			}
			c.wanted[e.For] = true
		}
	case Fail:
		j.stop(true, e.Reason == NodeLost)
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
}
