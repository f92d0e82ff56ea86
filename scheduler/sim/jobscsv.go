package sim

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"
)

// jobColumn is a column of jobs.csv. Columns are only added, at the end: scripts read them.
type jobColumn struct {
	name  string
	value func(line []byte, j *JobResult) []byte // appends a value, or nothing if there is none
}

// jobColumns are the columns, for a cluster with a number of GPUs.
func jobColumns(gpus int) []jobColumn {
	return []jobColumn{
		{"job_id", func(b []byte, j *JobResult) []byte { return strconv.AppendInt(b, int64(j.ID), 10) }},
		{"submit_s", func(b []byte, j *JobResult) []byte { return appendSeconds(b, j.Submit, true) }},
		{"start_s", func(b []byte, j *JobResult) []byte { return appendSeconds(b, j.Start, j.Started) }},
		{"finish_s", func(b []byte, j *JobResult) []byte { return appendSeconds(b, j.Finish, j.Outcome != Unfinished) }},
		{"preemptions", func(b []byte, j *JobResult) []byte { return strconv.AppendInt(b, int64(j.Preemptions), 10) }},
		{"name", func(b []byte, j *JobResult) []byte { return append(b, csvField(j.Name)...) }},
		{"user", func(b []byte, j *JobResult) []byte { return append(b, csvField(j.User)...) }},
		{"class", func(b []byte, j *JobResult) []byte { return append(b, j.Class()...) }},
		{"priority", func(b []byte, j *JobResult) []byte { return strconv.AppendInt(b, int64(j.Priority), 10) }},
		{"gpus", func(b []byte, j *JobResult) []byte { return strconv.AppendInt(b, int64(j.GPUs), 10) }},
		{"outcome", func(b []byte, j *JobResult) []byte { return append(b, j.Outcome.String()...) }},
		{"start_delay_s", func(b []byte, j *JobResult) []byte { return appendSeconds(b, j.Start-j.Submit, j.Started) }},
		{"wait_s", func(b []byte, j *JobResult) []byte { return appendSeconds(b, j.Wait(), j.Outcome != Unfinished) }},
		{"run_s", func(b []byte, j *JobResult) []byte { return appendSeconds(b, j.Ran, true) }},
		{"slowdown", func(b []byte, j *JobResult) []byte { return appendRatio(b)(j.Slowdown()) }},
		{"bounded_slowdown", func(b []byte, j *JobResult) []byte { return appendRatio(b)(j.BoundedSlowdown()) }},
		{"finish_time_fairness", func(b []byte, j *JobResult) []byte {
			return appendRatio(b)(j.FinishTimeFairness(gpus))
		}},
		{"gpu_s_requested", func(b []byte, j *JobResult) []byte { return appendNumber(b, j.Requested()) }},
		{"gpu_s", func(b []byte, j *JobResult) []byte { return appendNumber(b, j.GPUSeconds) }},
		{"runs", func(b []byte, j *JobResult) []byte { return strconv.AppendInt(b, int64(j.Runs), 10) }},
		{"migrations", func(b []byte, j *JobResult) []byte { return strconv.AppendInt(b, int64(j.Migrations), 10) }},
		{"resizes", func(b []byte, j *JobResult) []byte { return strconv.AppendInt(b, int64(j.Resizes), 10) }},
		{"restarts", func(b []byte, j *JobResult) []byte { return strconv.AppendInt(b, int64(j.Restarts), 10) }},
		{"placement", func(b []byte, j *JobResult) []byte { return j.Placement.AppendText(b) }},
	}
}

// JobsCSV writes a line for each job, by number. Values that do not exist are empty.
func (r *Result) JobsCSV(to io.Writer) error {
	out := bufio.NewWriter(to)
	columns := jobColumns(capacityOf(r.Nodes))
	var line []byte
	for i, c := range columns {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, c.name...)
	}
	fmt.Fprintf(out, "%s\n", line) // Flush returns the error, here and below
	var j JobResult
	for i := range r.Jobs.Len() {
		j, line = r.Jobs.At(i), line[:0]
		for k, c := range columns {
			if k > 0 {
				line = append(line, ',')
			}
			line = c.value(line, &j)
		}
		_, _ = out.Write(append(line, '\n'))
	}
	return out.Flush()
}

// appendSeconds appends a time, if there is one.
func appendSeconds(to []byte, at time.Duration, ok bool) []byte {
	if !ok {
		return to
	}
	return append(to, Seconds(at)...)
}

// appendRatio appends a number, if there is one.
func appendRatio(to []byte) func(x float64, ok bool) []byte {
	return func(x float64, ok bool) []byte {
		if !ok {
			return to
		}
		return appendNumber(to, x)
	}
}

// appendNumber appends a number with 9 decimals at most.
func appendNumber(to []byte, x float64) []byte {
	return strconv.AppendFloat(to, toNanos(x), 'f', -1, 64)
}
