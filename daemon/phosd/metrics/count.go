package metrics

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
)

// Started counts a program that got a worker, and how long that took.
func (m *Metrics) Started(took time.Duration) {
	m.started.Inc()
	m.startSeconds.Observe(took.Seconds())
}

// SessionRestored counts a program that was restored with its worker.
func (m *Metrics) SessionRestored() { m.started.Inc() }

// Refused counts a program that was refused.
func (m *Metrics) Refused() { m.refused.Inc() }

// Ended counts a worker that has ended.
func (m *Metrics) Ended() { m.ended.Inc() }

// GPUFailed counts an error of a real GPU that its driver reported.
func (m *Metrics) GPUFailed(bus string, xid uint64) {
	m.xids.WithLabelValues(bus, strconv.FormatUint(xid, 10)).Inc()
}

// ImageRemoved counts an image of an ended program that was removed.
func (m *Metrics) ImageRemoved(reason string) { m.imagesRemoved.WithLabelValues(reason).Inc() }

// Restored counts a restore, and how long it took.
func (m *Metrics) Restored(restored *ckpt.RestoreResult, took time.Duration, err error) {
	outcome := result(err)
	if errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrNotPermitted) {
		outcome = resultRefused // any user can cause it, so it must not look like a failure
	}
	m.restores.WithLabelValues(outcome).Inc()
	if err == nil {
		m.restoreSeconds.Observe(took.Seconds())
		m.steps(restored.Took)
	}
}

// Values of the label "result".
const (
	resultDone      = "done"
	resultBusy      = "busy"
	resultCancelled = "cancelled"
	resultFailed    = "failed"
	resultRefused   = "refused"
)

// Values of the label "by".
const (
	byRequest = "request"
	byPolicy  = "policy"
)

// result returns the value of the label "result" for an error.
func result(err error) string {
	switch {
	case err == nil:
		return resultDone
	case errors.Is(err, ckpt.ErrBusy):
		return resultBusy
	case errors.Is(err, context.Canceled):
		return resultCancelled
	}
	return resultFailed
}

// Checkpointed counts a checkpoint.
func (m *Metrics) Checkpointed(saved *ckpt.CheckpointResult, err error, policy bool) {
	by := byRequest
	if policy {
		by = byPolicy
	}
	m.checkpoints.WithLabelValues(result(err), by).Inc()
	if saved == nil {
		return
	}
	m.pauseSeconds.Observe(saved.Pause.Seconds())
	m.writtenBytes.Add(float64(saved.Manifest.Stats.WrittenBytes))
	m.sharedBytes.Add(float64(saved.Manifest.Stats.SharedBytes))
	m.steps(saved.Took)
	for part, step := range pausePart {
		m.pausePartSeconds.WithLabelValues(part).Observe(saved.Paused[step].Seconds())
	}
	stopped := saved.Paused["quiesce"] + saved.Paused["freeze"] + saved.Paused["cut"] + saved.Paused["hold"]
	m.pausePartSeconds.WithLabelValues("resume").Observe(max(saved.Pause-stopped, 0).Seconds())
}

// pausePart maps the parts of the metric to what package ckpt calls them.
var pausePart = map[string]string{
	"calls": "quiesce", "freeze": "freeze", "processes": "cut.processes", "gpu": "cut.gpu", "files": "cut.files",
}

// shownStep maps the steps of package ckpt to those of the metric. Inner steps have no metric:
// their time is in that of the step around them.
var shownStep = map[string]string{
	"inspect": "inspect", "begin": "inspect",
	"precopy":  "copy",
	"quiesce":  "wait",
	"attempts": "pause", "resume": "pause",
	"write": "write", "finish": "write", "commit": "write", "publish": "write", "end": "write",
	"prepare": "prepare", "unpack": "prepare", "workers": "prepare",
	"restore-hold": "processes", "processes": "processes",
	"ready":  "load",
	"attach": "attach", "keep": "attach",
}

// steps observes how long each shown step took.
func (m *Metrics) steps(took map[string]time.Duration) {
	sums := make(map[string]time.Duration)
	for step, each := range took {
		if shown := shownStep[step]; shown != "" {
			sums[shown] += each
		}
	}
	for step, sum := range sums {
		m.stepSeconds.WithLabelValues(step).Observe(sum.Seconds())
	}
}
