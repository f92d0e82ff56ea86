package order

import (
	"fmt"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Words of each order say why a job ranks where it does: "priority 3". scheduler/why uses them.

// Words returns nothing: what counts is the submission.
func (FIFO) Words(scheduler.View, *scheduler.Job) string { return "" }

// Words returns the priority.
func (Priority) Words(_ scheduler.View, j *scheduler.Job) string {
	return fmt.Sprint("priority ", j.Priority())
}

// Words returns the estimate.
func (SJF) Words(_ scheduler.View, j *scheduler.Job) string {
	return "estimated at " + words.Span(j.Estimate())
}

// Words returns the remaining time.
func (SRTF) Words(v scheduler.View, j *scheduler.Job) string {
	return words.Span(j.Remaining(v.Now())) + " left by its estimate"
}

// Words returns the remaining GPU-time.
func (SRSF) Words(v scheduler.View, j *scheduler.Job) string {
	gpus := float64(j.RequestedGPUs()*j.Share()) / cluster.WholeGPU
	return fmt.Sprintf("%s on %s left by its estimate", words.Span(j.Remaining(v.Now())), gpusOf(gpus))
}

// gpusOf returns "1 GPU", "8 GPUs" or "0.25 GPUs".
func gpusOf(n float64) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%.3g GPUs", n)
}

// Words returns the attained time.
func (LAS) Words(v scheduler.View, j *scheduler.Job) string {
	return "has run for " + words.Span(j.Attained(v.Now()))
}

// Words returns the attained GPU-time.
func (LAS2D) Words(v scheduler.View, j *scheduler.Job) string {
	return fmt.Sprintf("has had %.3g GPU-hours", j.Service(v.Now()).Hours())
}

// Words returns the queue.
func (d DLAS) Words(v scheduler.View, j *scheduler.Job) string {
	return fmt.Sprintf("in queue %d of %d", d.Rank(v, j).Tier+1, len(d.Limits)+1)
}

// Words returns what the index depends on.
func (g Gittins) Words(v scheduler.View, j *scheduler.Job) string {
	if g.twoD {
		return LAS2D{}.Words(v, j)
	}
	return LAS{}.Words(v, j)
}

// Words returns the finish-time fairness.
func (t Themis) Words(v scheduler.View, j *scheduler.Job) string {
	return fmt.Sprintf("finish-time fairness %.2f", -t.Rank(v, j).Value)
}

// Words returns what the user holds.
func (d DRF) Words(v scheduler.View, j *scheduler.Job) string {
	return userHolds(v, j) + within(orFIFO(d.Within), v, j)
}

// Words returns what the user holds, and of which quota.
func (q Quota) Words(v scheduler.View, j *scheduler.Job) string {
	text := userHolds(v, j)
	if quota := q.GPUs[j.User()]; quota > 0 {
		text += fmt.Sprintf(" of a quota of %.3g", quota)
	}
	return text + within(orFIFO(q.Within), v, j)
}

// userHolds returns what a job's user holds.
func userHolds(v scheduler.View, j *scheduler.Job) string {
	return "its user holds " + gpusOf(v.User(j.User()).GPUs)
}

// within returns the words of an order of the jobs of one user.
func within(of scheduler.Orderer, v scheduler.View, j *scheduler.Job) string {
	if o, ok := of.(interface {
		Words(v scheduler.View, j *scheduler.Job) string
	}); ok {
		if text := o.Words(v, j); text != "" {
			return ", " + text
		}
	}
	return ""
}

// Words returns that the job has waited too long, or the other order's words.
func (a aging) Words(v scheduler.View, j *scheduler.Job) string {
	if j.Waited(v.Now()) >= a.bound {
		return "has waited for more than " + words.Span(a.bound)
	}
	text := within(a.base, v, j)
	return text[min(2, len(text)):]
}
