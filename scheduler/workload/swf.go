package workload

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/phos-gpu/phos/cluster"
)

// The used fields of the Standard Workload Format, counted from 0. -1 means unknown.
const (
	swfFields     = 18
	swfID         = 0
	swfSubmit     = 1
	swfRun        = 3
	swfAllocated  = 4
	swfRequested  = 7
	swfAsked      = 8
	swfMemory     = 9
	swfUser       = 11
	swfGroup      = 12
	swfMemoryUnit = 1 << 10 // bytes, a processor
)

var swfNames = [swfFields]string{
	"job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time",
	"used memory", "requested processors", "requested time", "requested memory", "status", "user", "group",
	"executable", "queue", "partition", "preceding job", "think time",
}

// guessSWF recognizes comments with a semicolon, or 18 numbers.
func guessSWF(h head) bool {
	return strings.HasPrefix(h.text, ";") ||
		!strings.Contains(h.first, ",") && len(strings.Fields(h.first)) == swfFields
}

// readSWF reads a log of the Parallel Workloads Archive.
func readSWF(s *source) (Trace, error) {
	var trace Trace
	var at []int32
	err := s.each(func(line []byte) error {
		line = bytes.TrimSpace(line)
		if line[0] == ';' {
			return nil
		}
		job, why, err := s.swfJob(bytes.Fields(line))
		switch {
		case err != nil:
			return err
		case why != "":
			s.left[why]++
		default:
			trace.Jobs = append(trace.Jobs, job)
			at = append(at, int32(s.line))
		}
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	return trace, unique(&s.lines, trace.Jobs, at)
}

// swfJob parses a line, or returns why it is left out.
func (s *source) swfJob(values [][]byte) (j cluster.Job, why string, err error) {
	if len(values) != swfFields {
		return j, "", s.badValue(
			"",
			string(bytes.Join(values, []byte(" "))),
			fmt.Sprintf("%d numbers; there are %d", swfFields, len(values)),
		)
	}
	var whole [swfFields]int64
	for _, field := range []int{swfID, swfAllocated, swfRequested, swfUser, swfGroup} {
		if whole[field], err = s.swfWhole(values, field); err != nil {
			return j, "", err
		}
	}
	j = cluster.Job{ID: cluster.JobID(whole[swfID]), Share: cluster.WholeGPU, GPUs: int(whole[swfRequested])}
	if j.GPUs <= 0 {
		j.GPUs = int(whole[swfAllocated])
	}
	if whole[swfUser] >= 0 {
		j.User = fmt.Sprintf("user%d", whole[swfUser])
	}
	if whole[swfGroup] >= 0 {
		j.User = owner(fmt.Sprintf("group%d", whole[swfGroup]), j.User)
	}
	switch {
	case j.GPUs <= 0:
		return j, "jobs left out: their processors are unknown", nil
	case string(values[swfRun]) == "-1":
		return j, "jobs left out: their run time is unknown", nil
	}
	j, err = s.swfTimes(j, values)
	return j, "", err
}

// swfTimes fills in the submission, the length, and the estimate.
func (s *source) swfTimes(j cluster.Job, values [][]byte) (cluster.Job, error) {
	var ok bool
	if j.Submit, ok = seconds(values[swfSubmit]); !ok {
		return j, s.badValue(swfNames[swfSubmit], string(values[swfSubmit]), wantSeconds)
	}
	if j.Length, ok = seconds(values[swfRun]); !ok {
		return j, s.badValue(swfNames[swfRun], string(values[swfRun]), wantSeconds+", or -1")
	}
	j.Estimate = j.Length
	if string(values[swfAsked]) != "-1" {
		if j.Estimate, ok = seconds(values[swfAsked]); !ok {
			return j, s.badValue(swfNames[swfAsked], string(values[swfAsked]), wantSeconds+", or -1")
		}
	}
	if kib, ok := decimal(values[swfMemory], 0); ok && kib <= math.MaxInt64/swfMemoryUnit {
		j.GPUMemoryBytes = kib * swfMemoryUnit
	}
	return j, nil
}

// swfWhole parses a field that is a count.
func (s *source) swfWhole(values [][]byte, field int) (int64, error) {
	n, ok := whole(values[field])
	if field == swfID && (!ok || n < 0) {
		return 0, s.badValue(swfNames[field], string(values[field]), wantID)
	}
	if !ok || n < -1 || field != swfID && n > maxGPUs {
		return 0, s.badValue(swfNames[field], string(values[field]), wantNumber+", or -1 if unknown")
	}
	return n, nil
}
