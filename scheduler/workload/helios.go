package workload

import (
	"math"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// guessHelios reports whether the header is that of a Helios log.
func guessHelios(h head) bool { return h.has("gpu_num", "submit_time", "duration") }

// readHelios reads cluster_log.csv of one cluster. Failed jobs are kept: they held their GPUs, too.
func readHelios(s *source) (Trace, error) {
	t, err := newTable(s.lines, nil)
	if err != nil {
		return Trace{}, err
	}
	if err := t.require("job_id", "user", "vc", "gpu_num", "submit_time", "duration"); err != nil {
		return Trace{}, err
	}
	trace := newTrace()
	var at []int32
	err = t.each(func() error {
		job, err := heliosJob(t)
		if err != nil {
			return err
		}
		if job.GPUs == 0 {
			s.left["jobs left out: they need no GPU"]++
			return nil
		}
		trace.Jobs.Add(&job)
		at = append(at, int32(t.line))
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	return trace, unique(&t.lines, trace.Jobs, at)
}

// heliosJob returns the job of the current row. Of a job without GPUs it reads nothing else.
func heliosJob(t *table) (j cluster.Job, err error) {
	id, err := t.number("job_id", 0, math.MaxInt64, wantID)
	if err != nil {
		return j, err
	}
	gpus, err := t.number("gpu_num", 0, maxGPUs, "a whole number from 0 to 1000000")
	if err != nil || gpus == 0 {
		return j, err
	}
	j = cluster.Job{
		ID:    cluster.JobID(id),
		GPUs:  int(gpus),
		Share: cluster.WholeGPU,
		User:  owner(t.word("vc"), t.word("user")),
	}
	if j.Submit, err = t.clock("submit_time"); err != nil {
		return j, err
	}
	j.Length, err = t.seconds("duration")
	j.Estimate = j.Length
	return j, err
}
