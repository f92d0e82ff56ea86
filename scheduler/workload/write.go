package workload

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// column is how a column is written, and whether a job needs it.
type column struct {
	name   string
	put    func(to []byte, j *cluster.Job) []byte
	needed func(j *cluster.Job) bool
}

var writers = []column{
	{"job_id", func(to []byte, j *cluster.Job) []byte { return strconv.AppendInt(to, int64(j.ID), 10) }, nil},
	{"submit_s", func(to []byte, j *cluster.Job) []byte { return appendSeconds(to, j.Submit) }, nil},
	{"duration_s", func(to []byte, j *cluster.Job) []byte { return appendSeconds(to, j.Length) }, nil},
	{"num_gpus", func(to []byte, j *cluster.Job) []byte { return strconv.AppendInt(to, int64(j.GPUs), 10) }, nil},
	textColumn("name", func(j *cluster.Job) string { return j.Name }),
	textColumn("user", func(j *cluster.Job) string { return j.User }),
	textColumn("model", func(j *cluster.Job) string { return j.Model }),
	textColumn("gpu_type", func(j *cluster.Job) string { return j.GPUType }),
	intColumn("priority", func(j *cluster.Job) int { return j.Priority }),
	{
		"estimate_s", func(to []byte, j *cluster.Job) []byte { return appendSeconds(to, j.Estimate) },
		func(j *cluster.Job) bool { return j.Estimate != j.Length },
	},
	{
		"share", func(to []byte, j *cluster.Job) []byte {
			to = strconv.AppendInt(to, int64(j.Share/cluster.WholeGPU), 10)
			return appendFraction(to, int64(j.Share%cluster.WholeGPU), 3)
		},
		func(j *cluster.Job) bool { return j.Share != cluster.WholeGPU },
	},
	intColumn("min_gpus", func(j *cluster.Job) int { return j.MinGPUs }),
	intColumn("max_gpus", func(j *cluster.Job) int { return j.MaxGPUs }),
	{"memory_gib", putMemory, func(j *cluster.Job) bool { return j.GPUMemoryBytes != 0 }},
}

// putMemory writes bytes in GiB, exact to the byte.
func putMemory(to []byte, j *cluster.Job) []byte {
	if j.GPUMemoryBytes == 0 {
		return to
	}
	return strconv.AppendFloat(to, float64(j.GPUMemoryBytes)/(1<<30), 'f', -1, 64)
}

// textColumn is a column that is needed if the text is not empty.
func textColumn(name string, of func(j *cluster.Job) string) column {
	return column{
		name, func(to []byte, j *cluster.Job) []byte { return putText(to, of(j)) },
		func(j *cluster.Job) bool { return of(j) != "" },
	}
}

// intColumn is a column that is needed if the number is not 0.
func intColumn(name string, of func(j *cluster.Job) int) column {
	return column{
		name, func(to []byte, j *cluster.Job) []byte {
			if of(j) == 0 {
				return to
			}
			return strconv.AppendInt(to, int64(of(j)), 10)
		},
		func(j *cluster.Job) bool { return of(j) != 0 },
	}
}

// putText quotes a value if necessary. Line ends become spaces, because a line cannot contain them.
func putText(to []byte, text string) []byte {
	text = strings.NewReplacer("\n", " ", "\r", " ").Replace(text)
	if !strings.ContainsAny(text, "\",") && strings.TrimSpace(text) == text {
		return append(to, text...)
	}
	to = append(to, '"')
	to = append(to, strings.ReplaceAll(text, `"`, `""`)...)
	return append(to, '"')
}

// Write writes jobs as our CSV, exactly, with those columns that any of them needs.
func Write(w io.Writer, jobs *packed.Jobs) error {
	var used []column
	for _, c := range writers {
		if c.needed == nil || anyJob(jobs, c.needed) {
			used = append(used, c)
		}
	}
	out := bufio.NewWriter(w)
	var line []byte
	for i, c := range used {
		line = append(append(line, commaBefore(i)...), c.name...)
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return err
	}
	var j cluster.Job
	for i := range jobs.Len() {
		j, line = jobs.At(i), line[:0]
		for n, c := range used {
			line = c.put(append(line, commaBefore(n)...), &j)
		}
		if _, err := out.Write(append(bytes.TrimSpace(line), '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}

// commaBefore returns the separator before the n-th column.
func commaBefore(n int) string {
	if n == 0 {
		return ""
	}
	return ","
}

// anyJob reports whether any job needs a column.
func anyJob(jobs *packed.Jobs, needed func(j *cluster.Job) bool) bool {
	var j cluster.Job
	for i := range jobs.Len() {
		if j = jobs.At(i); needed(&j) {
			return true
		}
	}
	return false
}
