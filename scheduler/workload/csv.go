package workload

import (
	"errors"
	"math"
	"strings"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Columns returns the columns of our CSV, in the order in which Write writes them. The first four
// are required.
func Columns() []string { return append([]string(nil), columns...) }

var columns = []string{
	"job_id", "submit_s", "duration_s", "num_gpus",
	"name", "user", "model", "gpu_type", "priority", "estimate_s", "share", "min_gpus", "max_gpus", "memory_gib",
}

// memoryPlaces is the precision of GiB: the ninth place is about a byte.
const memoryPlaces = 12

// arrival is an alias of submit_s.
const arrival = "arrival_s"

// readCSV reads our CSV.
func readCSV(s *source) (Trace, error) {
	t, err := newTable(s.lines, nil)
	if err != nil {
		return Trace{}, err
	}
	if t.has(arrival) && t.has("submit_s") {
		return Trace{}, t.badValue("", strings.Join(t.names, ","), "one of submit_s and arrival_s")
	}
	if err := errors.Join(t.allowOnly(append([]string{arrival}, columns...))); err != nil {
		return Trace{}, err
	}
	submit := "submit_s"
	if t.has(arrival) {
		submit = arrival
	}
	if err := t.require("job_id", submit, "duration_s", "num_gpus"); err != nil {
		return Trace{}, err
	}
	trace := newTrace()
	var at []int32
	var job cluster.Job // one for all: they are packed
	err = t.each(func() (err error) {
		if job, err = csvJob(t, submit); err != nil {
			return err
		}
		trace.Jobs.Add(&job)
		if s.fits != nil {
			column, want := s.fits(&job)
			if column == "submit_s" {
				column = submit
			}
			if want != "" {
				return t.badValue(column, string(t.raw(column)), want)
			}
		}
		at = append(at, int32(t.line))
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	return trace, unique(&t.lines, trace.Jobs, at)
}

// csvJob parses a row.
func csvJob(t *table, submit string) (j cluster.Job, err error) {
	id, err := t.number("job_id", 0, math.MaxInt64, wantID)
	if err != nil {
		return j, err
	}
	j = cluster.Job{ID: cluster.JobID(id), Share: cluster.WholeGPU}
	if j.Submit, err = t.seconds(submit); err != nil {
		return j, err
	}
	if j.Length, err = t.seconds("duration_s"); err != nil {
		return j, err
	}
	if j.GPUs, err = t.count("num_gpus"); err != nil {
		return j, err
	}
	j.Estimate = j.Length
	if t.has("estimate_s") && !t.absent("estimate_s") {
		if j.Estimate, err = t.seconds("estimate_s"); err != nil {
			return j, err
		}
	}
	if len(t.names) > 4 {
		err = csvOptions(t, &j)
	}
	return j, err
}

// csvOptions parses the optional columns. An empty value is like a missing column.
func csvOptions(t *table, j *cluster.Job) (err error) {
	j.Name, j.User, j.Model, j.GPUType = string(t.raw("name")), t.word("user"), t.word("model"), t.word("gpu_type")
	if !t.absent("priority") {
		priority, err := t.number("priority", math.MinInt32, math.MaxInt32, wantNumber)
		if err != nil {
			return err
		}
		j.Priority = int(priority)
	}
	if !t.absent("memory_gib") {
		gib, ok := decimal(t.raw("memory_gib"), memoryPlaces)
		if !ok {
			return t.badValue("memory_gib", string(t.raw("memory_gib")), "GiB, a decimal number of 0 or more")
		}
		j.GPUMemoryBytes = int64(math.Round(float64(gib) / math.Pow10(memoryPlaces) * (1 << 30)))
	}
	if err := csvShare(t, j); err != nil {
		return err
	}
	return csvBounds(t, j)
}

// csvShare parses the share of a GPU that a job needs.
func csvShare(t *table, j *cluster.Job) error {
	if t.absent("share") {
		return nil
	}
	share, ok := decimal(t.raw("share"), 3)
	if !ok || share < 1 || share > cluster.WholeGPU || share < cluster.WholeGPU && j.GPUs != 1 {
		return t.badValue(
			"share",
			string(t.raw("share")),
			"a part of a GPU from 0.001 to 1, and less than 1 only with one GPU",
		)
	}
	j.Share = int(share)
	return nil
}

// csvBounds parses the bounds of an elastic job.
func csvBounds(t *table, j *cluster.Job) (err error) {
	if t.absent("min_gpus") && t.absent("max_gpus") {
		return nil
	}
	j.MinGPUs, j.MaxGPUs = j.GPUs, j.GPUs
	if !t.absent("min_gpus") {
		if j.MinGPUs, err = t.count("min_gpus"); err != nil {
			return err
		}
	}
	if !t.absent("max_gpus") {
		if j.MaxGPUs, err = t.count("max_gpus"); err != nil {
			return err
		}
	}
	if j.MinGPUs > j.GPUs {
		return t.badValue("min_gpus", string(t.raw("min_gpus")), "at most num_gpus")
	}
	if j.MaxGPUs < j.GPUs {
		return t.badValue("max_gpus", string(t.raw("max_gpus")), "at least num_gpus")
	}
	return nil
}
