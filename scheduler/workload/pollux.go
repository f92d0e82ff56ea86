package workload

import (
	"fmt"

	"github.com/phos-gpu/phos/cluster"
)

// guessPollux reports whether the header is that of one of Pollux's files.
func guessPollux(h head) bool {
	return h.has("name", "time", "application") || h.has("timestamp", "duration", "num_gpus")
}

// polluxRun is what determines how long an application trains.
type polluxRun struct {
	application, replicas, batch string
}

// readPollux reads Pollux's workloads, in which a job is an application and a batch size, and its
// length follows from profiles of that application. The profiles are not read; durations.csv in the
// same folder (application, num_replicas, batch_size, duration_s) has the lengths. Pollux's excerpt
// of Philly, traces/philly.csv, has lengths of its own.
func readPollux(s *source) (Trace, error) {
	t, err := newTable(s.lines, nil)
	if err != nil {
		return Trace{}, err
	}
	read := polluxLog
	if !t.has("timestamp") {
		lengths, err := s.polluxLengths()
		if err != nil {
			return Trace{}, err
		}
		read = func(t *table) (cluster.Job, error) { return polluxJob(t, lengths) }
	} else if err := t.require("timestamp", "duration", "num_gpus"); err != nil {
		return Trace{}, err
	}
	if !t.has("timestamp") {
		if err := t.require("name", "time", "application", "num_replicas", "batch_size"); err != nil {
			return Trace{}, err
		}
	}
	var trace Trace
	seen := map[string]int{}
	err = t.each(func() error {
		job, err := read(t)
		if err != nil {
			return err
		}
		if first, twice := seen[job.Name]; twice && job.Name != "" {
			return t.badValue("name", job.Name, fmt.Sprintf("a name of its own; line %d has the same", first))
		}
		seen[job.Name] = t.line
		trace.Jobs = append(trace.Jobs, job)
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	return trace, nil
}

// polluxLengths reads how long applications train.
func (s *source) polluxLengths() (map[polluxRun]cluster.Job, error) {
	in, done, err := s.openSecond("durations.csv*")
	if err != nil {
		return nil, err
	}
	if in == nil {
		return nil, &Error{
			File: s.file,
			Want: "durations.csv in the same folder (application,num_replicas,batch_size,duration_s): the workload does not " +
				"say how long a job is",
		}
	}
	defer done()
	t, err := newTable(*in, nil)
	if err != nil {
		return nil, err
	}
	if err := t.require("application", "num_replicas", "batch_size", "duration_s"); err != nil {
		return nil, err
	}
	lengths := map[polluxRun]cluster.Job{}
	return lengths, t.each(func() error {
		length, err := t.seconds("duration_s")
		lengths[polluxKey(t)] = cluster.Job{Length: length, Estimate: length}
		return err
	})
}

// polluxKey returns what determines the length of a row's job.
func polluxKey(t *table) polluxRun {
	return polluxRun{t.word("application"), t.word("num_replicas"), t.word("batch_size")}
}

// polluxJob parses a row of a workload.
func polluxJob(t *table, lengths map[polluxRun]cluster.Job) (j cluster.Job, err error) {
	key := polluxKey(t)
	j, ok := lengths[key]
	if !ok {
		return j, t.badValue("application", key.application,
			fmt.Sprintf("one that durations.csv has with num_replicas %s and batch_size %s", key.replicas, key.batch))
	}
	j.Name, j.Model, j.Share = string(t.raw("name")), key.application, cluster.WholeGPU
	if j.Submit, err = t.seconds("time"); err != nil {
		return j, err
	}
	j.GPUs, err = t.count("num_replicas")
	return j, err
}

// polluxLog parses a row of philly.csv.
func polluxLog(t *table) (j cluster.Job, err error) {
	j = cluster.Job{Share: cluster.WholeGPU, User: t.word("cluster")}
	if j.Submit, err = t.clock("timestamp"); err != nil {
		return j, err
	}
	if j.Length, err = t.seconds("duration"); err != nil {
		return j, err
	}
	j.Estimate = j.Length
	j.GPUs, err = t.count("num_gpus")
	return j, err
}
