package workload

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
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
	swfStatus     = 10
	swfUser       = 11
	swfGroup      = 12
	swfPreceding  = 16
	swfMemoryUnit = 1 << 10 // bytes, a processor
)

var swfNames = [swfFields]string{
	"job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time",
	"used memory", "requested processors", "requested time", "requested memory", "status", "user", "group",
	"executable", "queue", "partition", "preceding job", "think time",
}

// Values of the status. The others are the ends of whole jobs.
const (
	swfPart       = 2 // a part of a job, which continues
	swfLastPart   = 3 // the last part of a job that completed
	swfFailedPart = 4 // the last part of a job that failed
	swfCancelled  = 5 // a job that may never have run
)

// What replaces unknown values.
const (
	swfNoRequest  = "no requested processors; as many as were allocated"
	swfNoEstimate = "no requested time; the estimate is the run time"
	swfFollows    = "they follow a preceding job; here they are submitted at the log's times, whenever that one ends"
)

// guessSWF recognizes comments with a semicolon, or 18 numbers.
func guessSWF(h head) bool {
	return strings.HasPrefix(h.text, ";") ||
		!strings.Contains(h.first, ",") && len(strings.Fields(h.first)) == swfFields
}

// swfLog is what is known of a log while it is read.
type swfLog struct {
	*source
	nodes, procs int64 // of the header; 0 if unknown

	// whole is the number of the last line that is a whole job. Lines with parts of a job follow it.
	whole cluster.JobID
}

// readSWF reads a log of the Parallel Workloads Archive.
//
// A job has the processors that were requested, or those that it got, and --processors-per-gpu of
// them are a GPU. Requested times are estimates, groups and users are teams and users. Wait times
// are results of the log's own scheduler and are not used; neither are queues, partitions and think
// times.
func readSWF(s *source) (Trace, error) {
	trace := newTrace()
	var at []int32
	log := &swfLog{source: s, whole: -1}
	err := s.each(func(line []byte) error {
		line = bytes.TrimSpace(line)
		if line[0] == ';' {
			log.header(string(line[1:]))
			return nil
		}
		job, why, err := log.job(bytes.Fields(line))
		switch {
		case err != nil:
			return err
		case why != "":
			s.left[why]++
		default:
			trace.Jobs.Add(&job)
			at = append(at, int32(s.line))
		}
		return nil
	})
	if err != nil {
		return Trace{}, err
	}
	if per := s.perGPU(); per == 1 {
		trace.Notes = []string{"processors are taken for GPUs"}
	} else {
		trace.Notes = []string{fmt.Sprintf("%d processors are taken for a GPU", per)}
	}
	trace.Nodes = log.cluster()
	return trace, unique(&s.lines, trace.Jobs, at)
}

// perGPU returns how many processors are a GPU.
func (s *source) perGPU() int { return max(1, s.processors) }

// header takes the size of the cluster from a comment, such as "MaxNodes: 128".
func (l *swfLog) header(text string) {
	key, value, _ := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	digits := strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(value)
	}
	n, err := strconv.ParseInt(value[:digits], 10, 64)
	if err != nil {
		return // other comments, or UNKNOWN
	}
	switch strings.TrimSpace(key) {
	case "MaxNodes":
		l.nodes = n
	case "MaxProcs":
		l.procs = n
	}
}

// maxNodes bounds the nodes of a header. A larger number is a mistake in the file.
const maxNodes = 1_000_000

// cluster returns the nodes of the header, if they are equal and have whole GPUs. Nodes with fewer
// processors than a GPU are taken together.
func (l *swfLog) cluster() (nodes []cluster.Node) {
	per, count, procs := int64(l.perGPU()), l.nodes, l.procs
	if procs == 0 {
		procs = count
	}
	if count < 1 || count > maxNodes || procs%count != 0 {
		return nil
	}
	gpus, on := int64(0), procs/count
	switch {
	case on%per == 0:
		gpus = on / per
	case per%on == 0 && count%(per/on) == 0:
		gpus, count = 1, count/(per/on)
	}
	if gpus < 1 || gpus > maxGPUsPerNode {
		return nil
	}
	for i := range count {
		nodes = append(nodes, cluster.Node{ID: cluster.NodeID(i), GPUs: int(gpus)})
	}
	return nodes
}

// job parses a line, or returns why it is left out.
func (l *swfLog) job(values [][]byte) (j cluster.Job, why string, err error) {
	if len(values) != swfFields {
		return j, "", l.badValue(
			"",
			string(bytes.Join(values, []byte(" "))),
			fmt.Sprintf("%d numbers; there are %d", swfFields, len(values)),
		)
	}
	var whole [swfFields]int64
	for _, field := range []int{
		swfID, swfAllocated, swfRequested, swfStatus, swfUser, swfGroup, swfPreceding,
	} {
		if whole[field], err = l.number(values, field); err != nil {
			return j, "", err
		}
	}
	j = cluster.Job{ID: cluster.JobID(whole[swfID]), Share: cluster.WholeGPU}
	switch status := whole[swfStatus]; {
	case (status == swfPart || status == swfLastPart || status == swfFailedPart) && j.ID == l.whole:
		return j, "lines left out: they are parts of a job that has a line of its own", nil
	default:
		l.whole = j.ID
	}
	if whole[swfUser] >= 0 {
		j.User = fmt.Sprintf("user%d", whole[swfUser])
	}
	if whole[swfGroup] >= 0 {
		j.User = owner(fmt.Sprintf("group%d", whole[swfGroup]), j.User)
	}
	processors := whole[swfRequested]
	if processors <= 0 {
		processors = whole[swfAllocated]
	}
	switch {
	case processors <= 0:
		return j, "jobs left out: their processors are unknown", nil
	case swfUnknown(values[swfRun]):
		return j, "jobs left out: their run time is unknown", nil
	case swfUnknown(values[swfSubmit]):
		return j, "jobs left out: their time of submission is unknown", nil
	}
	if j, err = l.times(j, values); err != nil {
		return j, "", err
	}
	if j.Length == 0 && whole[swfStatus] == swfCancelled {
		return j, "jobs left out: they were cancelled before they ran", nil
	}
	per := int64(l.perGPU())
	j.GPUs = int((processors + per - 1) / per)
	if j.GPUMemoryBytes > 0 && j.GPUMemoryBytes <= math.MaxInt64/per {
		j.GPUMemoryBytes *= per
	}
	l.note(&j, &whole)
	return j, "", nil
}

// note counts what a job lacks.
func (l *swfLog) note(j *cluster.Job, whole *[swfFields]int64) {
	if whole[swfRequested] <= 0 {
		l.assumed[swfNoRequest]++
	}
	if j.Estimate == 0 {
		j.Estimate = j.Length
		l.assumed[swfNoEstimate]++
	}
	if whole[swfPreceding] > 0 {
		l.assumed[swfFollows]++
	}
}

// times fills in the submission, the length, the memory, and the estimate: 0 if it is unknown,
// which some logs write as 0.
func (l *swfLog) times(j cluster.Job, values [][]byte) (_ cluster.Job, err error) {
	for _, each := range []struct {
		field int
		to    *time.Duration
		want  string
	}{
		{swfSubmit, &j.Submit, wantSeconds},
		{swfRun, &j.Length, wantSeconds + ", or -1"},
		{swfAsked, &j.Estimate, wantSeconds + ", or -1"},
	} {
		ok := true
		if !swfUnknown(values[each.field]) {
			*each.to, ok = seconds(values[each.field])
		}
		if !ok {
			return j, l.badValue(swfNames[each.field], string(values[each.field]), each.want)
		}
	}
	if kib, ok := decimal(values[swfMemory], 0); ok && kib <= math.MaxInt64/swfMemoryUnit {
		j.GPUMemoryBytes = kib * swfMemoryUnit
	}
	return j, nil
}

// swfUnknown reports whether a value is -1, also in the form "-1.0" that models write.
func swfUnknown(text []byte) bool {
	n, ok := whole(text)
	return ok && n == -1
}

// number parses a field that is a count.
func (l *swfLog) number(values [][]byte, field int) (int64, error) {
	n, ok := whole(values[field])
	if field == swfID && (!ok || n < 0) {
		return 0, l.badValue(swfNames[field], string(values[field]), wantID)
	}
	many := field != swfID && field != swfPreceding && n > maxGPUs
	if !ok || n < -1 || many {
		return 0, l.badValue(swfNames[field], string(values[field]), wantNumber+", or -1 if unknown")
	}
	return n, nil
}
