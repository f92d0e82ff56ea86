package workload

import (
	"fmt"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// guessOpenB reports whether the header is that of a list of pods.
func guessOpenB(h head) bool { return h.has("name", "num_gpu", "gpu_milli") }

// openBDefault is the list of which all other published lists are samples.
const openBDefault = "openb_pod_list_default.csv"

// readOpenB reads openb_pod_list_*.csv: a pod is a job from its creation, as long as the time
// between its scheduling and its deletion. The lists multigpu20 to multigpu50 have no times, see
// openBCopies.
func readOpenB(s *source) (Trace, error) {
	t, err := newTable(s.lines, nil)
	if err != nil {
		return Trace{}, err
	}
	if err := t.require("name", "num_gpu", "gpu_milli"); err != nil {
		return Trace{}, err
	}
	add := func(trace *Trace, p openBPod) { trace.Jobs.Add(&p.job) }
	var copies *openBCopies
	if !t.has("creation_time") && !t.has("scheduled_time") && !t.has("deletion_time") {
		if copies, err = s.openBCopies(); err != nil {
			return Trace{}, err
		}
		add = copies.add
	}
	trace := newTrace()
	err = eachOpenB(t, copies == nil, func(p openBPod) error {
		if copies != nil {
			copies.times(&p)
		}
		if p.why != "" {
			s.left[p.why]++
			return nil
		}
		if strings.Contains(p.job.GPUType, "|") {
			p.job.GPUType = ""
			s.left["jobs name several GPU models; here they run on any"]++
		}
		add(&trace, p)
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	if copies != nil {
		copies.spread(&trace)
		s.beside = "" // it was the list with the times
	}
	in, done, err := s.openSecond("openb_node_list_gpu_node.csv*", "openb_node_list_*.csv*")
	if err != nil || in == nil {
		return trace, err
	}
	defer done()
	trace.Nodes, err = machines(*in, nil, machineColumns{name: "sn", gpus: "gpu", model: "model"})
	return trace, err
}

// openBPod is a row of a list of pods.
type openBPod struct {
	job cluster.Job
	why string // it is left out; "" if it is not

	// request is all that the pod asks for. Pods of one list with the same request are alike.
	request string
}

// eachOpenB calls read for each pod of a list, with or without times.
func eachOpenB(t *table, timed bool, read func(p openBPod) error) error {
	if timed {
		if err := t.require("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time"); err != nil {
			return err
		}
	}
	seen := map[string]int{}
	return t.each(func() error {
		p, err := openBRow(t)
		if err == nil && timed && p.why == "" {
			err = p.fillTimes(t)
		}
		if err != nil {
			return err
		}
		if first, twice := seen[p.job.Name]; twice {
			return t.badValue("name", p.job.Name, fmt.Sprintf("a name of its own; line %d has the same", first))
		}
		seen[p.job.Name] = t.line
		return read(p)
	})
}

// openBRow returns a pod without its times.
func openBRow(t *table) (p openBPod, err error) {
	p.job = cluster.Job{Name: string(t.raw("name")), Share: cluster.WholeGPU}
	gpus, err := t.number("num_gpu", 0, maxGPUs, "a whole number from 0 to 1000000")
	if err != nil {
		return p, err
	}
	milli, err := t.number("gpu_milli", 0, cluster.WholeGPU, "thousandths of a GPU, from 0 to 1000")
	switch {
	case err != nil:
		return p, err
	case gpus == 0:
		p.why = "jobs left out: they need no GPU"
		return p, nil
	case gpus == 1 && milli > 0:
		p.job.Share = int(milli)
	}
	p.job.GPUs = int(gpus)
	if !t.absent("gpu_spec") {
		p.job.GPUType = t.word("gpu_spec")
	}
	p.request = fmt.Sprintf("%d %d %s %s", gpus, milli, t.raw("cpu_milli"), t.raw("memory_mib"))
	return p, nil
}

// fillTimes parses the times of a pod that needs GPUs.
func (p *openBPod) fillTimes(t *table) (err error) {
	if t.absent("scheduled_time") || t.absent("deletion_time") {
		p.why = "jobs left out: they never ran"
		return nil
	}
	if p.job.Submit, err = t.seconds("creation_time"); err != nil {
		return err
	}
	from, err := t.seconds("scheduled_time")
	if err != nil {
		return err
	}
	to, err := t.seconds("deletion_time")
	if err == nil && to < from {
		err = t.badValue("deletion_time", string(t.raw("deletion_time")), "a time after scheduled_time")
	}
	p.job.Length, p.job.Estimate = to-from, to-from
	return err
}

// openBCopies has the times for a list without times. Such a list is the default list, pod by pod,
// and behind it copies of that list's pods with several GPUs, under new names. A pod of the default
// list has its times. A copy is as long as the pods that ran with the same request, one after the
// other; the copies are created at equal intervals over the time of the default list.
type openBCopies struct {
	s         *source
	named     map[string]openBPod
	requests  map[string]*openBRequest
	from, to  time.Duration // in which the default list's pods are created
	unplaced  []int         // the copies among the trace's jobs
	needsTime bool          // of the pod that is added next
}

// openBRequest has the lengths of the pods with one request, and how many copies there are.
type openBRequest struct {
	lengths []time.Duration
	copies  int
}

// Where the times of pods without times come from.
const (
	openBNamed  = "no times in the list; they are those of the pod of that name in " + openBDefault
	openBCopied = "no times in the list, and not in " + openBDefault +
		"; as long as its pods with the same request, created at equal intervals"
)

// openBCopies reads the default list.
func (s *source) openBCopies() (*openBCopies, error) {
	in, done, err := s.openSecond(openBDefault + "*")
	if err != nil {
		return nil, err
	}
	if in == nil {
		return nil, &Error{
			File: s.file,
			Want: openBDefault + " in the same folder, or named by --beside: this list has no times",
		}
	}
	defer done()
	t, err := newTable(*in, nil)
	if err != nil {
		return nil, err
	}
	c := &openBCopies{s: s, named: map[string]openBPod{}, requests: map[string]*openBRequest{}}
	return c, eachOpenB(t, true, func(p openBPod) error {
		c.named[p.job.Name] = p
		if p.why != "" {
			return nil
		}
		if len(c.requests) == 0 {
			c.from = p.job.Submit
		}
		c.from, c.to = min(c.from, p.job.Submit), max(c.to, p.job.Submit)
		r := c.requests[p.request]
		if r == nil {
			r = &openBRequest{}
			c.requests[p.request] = r
		}
		r.lengths = append(r.lengths, p.job.Length)
		return nil
	})
}

// times fills in the times of a pod, or why it is left out.
func (c *openBCopies) times(p *openBPod) {
	c.needsTime = false
	if p.why != "" {
		return
	}
	if known, ok := c.named[p.job.Name]; ok && known.request == p.request {
		p.why = known.why
		p.job.Submit, p.job.Length, p.job.Estimate = known.job.Submit, known.job.Length, known.job.Estimate
		return
	}
	r := c.requests[p.request]
	if r == nil {
		p.why = "jobs left out: they have no times, and no pod of " + openBDefault + " with the same request ran"
		return
	}
	p.job.Length = r.lengths[r.copies%len(r.lengths)]
	p.job.Estimate = p.job.Length
	r.copies++
	c.needsTime = true
}

// add adds a job, and remembers whether it needs a time of creation.
func (c *openBCopies) add(trace *Trace, p openBPod) {
	if c.needsTime {
		c.unplaced = append(c.unplaced, trace.Jobs.Len())
		c.s.assumed[openBCopied]++
	} else {
		c.s.assumed[openBNamed]++
	}
	trace.Jobs.Add(&p.job)
}

// spread creates the copies at equal intervals.
func (c *openBCopies) spread(trace *Trace) {
	placed := 0
	trace.Jobs = trace.Jobs.Map(func(i int, j *cluster.Job) {
		if placed < len(c.unplaced) && c.unplaced[placed] == i {
			share := (float64(placed) + 0.5) / float64(len(c.unplaced))
			j.Submit = c.from + time.Duration(float64(c.to-c.from)*share).Round(time.Second)
			placed++
		}
	})
}

// machineColumns are the column names of a table of machines.
type machineColumns struct{ name, gpus, model string }

// maxGPUsPerNode bounds the GPUs of a machine.
const maxGPUsPerNode = 64

// machines reads a table of machines; those without GPUs are skipped.
func machines(in lines, names []string, c machineColumns) (nodes []cluster.Node, err error) {
	t, err := newTable(in, names)
	if err != nil {
		return nil, err
	}
	if err := t.require(c.name, c.gpus, c.model); err != nil {
		return nil, err
	}
	err = t.each(func() error {
		gpus, err := t.number(c.gpus, 0, maxGPUsPerNode, "a whole number from 0 to 64")
		if err != nil || gpus == 0 {
			return err
		}
		node := cluster.Node{ID: cluster.NodeID(len(nodes)), Name: string(t.raw(c.name)), GPUs: int(gpus)}
		if !t.absent(c.model) {
			node.GPUType = t.word(c.model)
		}
		nodes = append(nodes, node)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}
