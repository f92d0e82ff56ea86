package workload

import (
	"math"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// The tables are published without a header; their columns are in separate files.
var (
	paiJobColumns  = []string{"job_name", "inst_id", "user", "status", "start_time", "end_time"}
	paiTaskColumns = []string{
		"job_name",
		"task_name",
		"inst_num",
		"status",
		"start_time",
		"end_time",
		"plan_cpu",
		"plan_mem",
		"plan_gpu",
		"gpu_type",
	}
	paiMachineColumns = []string{"machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu"}
)

// guessPAI recognizes the status in the fourth column of both tables, or a header that was added.
func guessPAI(h head) bool {
	if h.has("job_name", "plan_gpu") || h.has("job_name", "inst_id", "user") {
		return true
	}
	values := strings.Split(h.first, ",")
	if len(values) != len(paiJobColumns) && len(values) != len(paiTaskColumns) {
		return false
	}
	switch values[3] {
	case "Terminated", "Failed", "Running", "Waiting":
		return true
	}
	return false
}

// paiJob collects the tasks of a job that need GPUs, and its row of the table of jobs.
type paiJob struct {
	user        string
	submit      time.Duration
	listed      bool // in the table of jobs
	tasks       int  // with GPUs
	percent     int64
	instances   int64
	from, to    time.Duration
	neverEnding bool
}

// readPAI reads the table of tasks and, for users and submissions, the table of jobs. Either may be
// named; the other is found in the same folder.
//
// All tasks of a job with GPUs are one gang. A single instance that needs less than a GPU shares
// it; several such instances are rounded up to whole GPUs together, since a gang cannot share GPUs
// here. gpu_type is what the task got, not what it asked for, and is ignored.
func readPAI(s *source) (Trace, error) {
	jobs := map[string]*paiJob{}
	h := newHead(s.file, s.in)
	read, other, read2 := readPAITasks, "pai_job_table*.csv*", readPAIJobs
	ofJobs := h.has("job_name", "user") || !h.has("job_name") && strings.Count(h.first, ",")+1 == len(paiJobColumns)
	if ofJobs {
		read, other, read2 = readPAIJobs, "pai_task_table*.csv*", readPAITasks
	}
	if err := read(s.lines, h, jobs); err != nil {
		return Trace{}, err
	}
	in, done, err := s.openSecond(other)
	if err != nil {
		return Trace{}, err
	}
	if in == nil && ofJobs {
		return Trace{}, &Error{
			File: s.file,
			Want: "pai_task_table.csv in the same folder, which says how many GPUs a job needs",
		}
	}
	if in != nil {
		defer done()
		if err := read2(*in, newHead(in.file, in.in), jobs); err != nil {
			return Trace{}, err
		}
	}
	trace := newTrace()
	for name, p := range jobs { // Read sorts and numbers them.
		if job, why := p.job(name); why != "" {
			s.left[why]++
		} else {
			trace.Jobs.Add(&job)
		}
	}
	return trace, s.paiMachines(&trace)
}

// paiMachines adds the nodes, if their table is present.
func (s *source) paiMachines(trace *Trace) error {
	s.beside = ""
	in, done, err := s.openSecond("pai_machine_spec*.csv*")
	if err != nil || in == nil {
		return err
	}
	defer done()
	columns := paiMachineColumns
	if newHead(in.file, in.in).has("machine") {
		columns = nil
	}
	trace.Nodes, err = machines(*in, columns, machineColumns{name: "machine", gpus: "cap_gpu", model: "gpu_type"})
	return err
}

// job returns the whole job, or why it is left out.
func (p *paiJob) job(name string) (j cluster.Job, why string) {
	switch {
	case p.tasks == 0:
		return j, "jobs left out: they need no GPU"
	case p.neverEnding || p.to <= p.from:
		return j, "jobs left out: a task of theirs has no start, no end or no length"
	}
	j = cluster.Job{
		Name:     name,
		User:     p.user,
		Submit:   p.from,
		Length:   p.to - p.from,
		Estimate: p.to - p.from,
		Share:    cluster.WholeGPU,
	}
	if p.listed && p.submit < p.from {
		j.Submit = p.submit
	}
	j.GPUs = int((p.percent + 99) / 100)
	if p.instances == 1 && p.percent < 100 {
		j.Share = int(p.percent) * 10
	}
	return j, ""
}

// readPAITasks reads pai_task_table.
func readPAITasks(in lines, h head, jobs map[string]*paiJob) error {
	return eachPAI(in, h, paiTaskColumns, func(t *table) error {
		if t.absent("plan_gpu") || t.absent("inst_num") {
			paiJobOf(jobs, t)
			return nil
		}
		percent, ok := decimal(t.raw("plan_gpu"), 0)
		if !ok || percent > 100*maxGPUs {
			return t.badValue("plan_gpu", string(t.raw("plan_gpu")), "hundredths of a GPU, a number of 0 or more")
		}
		instances, err := t.number("inst_num", 0, maxGPUs, "a whole number of 0 or more")
		if err != nil {
			return err
		}
		p := paiJobOf(jobs, t)
		if percent*instances == 0 {
			return nil
		}
		p.tasks++
		p.percent += percent * instances
		p.instances += instances
		return p.span(t)
	})
}

// span extends a job's time by a task's.
func (p *paiJob) span(t *table) error {
	if t.absent("start_time") || t.absent("end_time") {
		p.neverEnding = true
		return nil
	}
	from, err := t.seconds("start_time")
	if err != nil {
		return err
	}
	to, err := t.seconds("end_time")
	if p.tasks == 1 {
		p.from = time.Duration(math.MaxInt64)
	}
	p.from, p.to = min(p.from, from), max(p.to, to)
	return err
}

// readPAIJobs reads pai_job_table.
func readPAIJobs(in lines, h head, jobs map[string]*paiJob) error {
	return eachPAI(in, h, paiJobColumns, func(t *table) (err error) {
		p := paiJobOf(jobs, t)
		if p.listed {
			return t.badValue("job_name", string(t.raw("job_name")), "each job once")
		}
		p.user = t.word("user")
		if !t.absent("start_time") {
			p.listed = true
			p.submit, err = t.seconds("start_time")
		}
		return err
	})
}

// eachPAI calls each for every row of a table, with or without a header.
func eachPAI(in lines, h head, columns []string, each func(t *table) error) error {
	names := columns
	if h.has("job_name") {
		names = nil
	}
	t, err := newTable(in, names)
	if err != nil {
		return err
	}
	if err := t.require(columns...); err != nil {
		return err
	}
	return t.each(func() error { return each(t) })
}

// paiJobOf returns the job of a row, creating it if necessary.
func paiJobOf(jobs map[string]*paiJob, t *table) *paiJob {
	p := jobs[string(t.raw("job_name"))]
	if p == nil {
		p = &paiJob{}
		jobs[string(t.raw("job_name"))] = p
	}
	return p
}
