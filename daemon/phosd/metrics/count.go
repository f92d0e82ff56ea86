package metrics

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/ckpt"
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

// Restored counts a restore.
func (m *Metrics) Restored(restored *ckpt.RestoreResult, err error) {
	m.restores.WithLabelValues(result(err)).Inc()
	if err == nil {
		m.steps(restored.Took)
	}
}

// result returns the value of the label "result" for an error.
func result(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, ckpt.ErrBusy):
		return "busy"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "failed"
}

// Checkpointed counts a checkpoint.
func (m *Metrics) Checkpointed(saved *ckpt.CheckpointResult, err error, byPolicy bool) {
	by := "request"
	if byPolicy {
		by = "policy"
	}
	m.checkpoints.WithLabelValues(result(err), by).Inc()
	if saved == nil {
		return
	}
	m.pauseSeconds.Observe(saved.Pause.Seconds())
	m.writtenBytes.Add(float64(saved.Manifest.Stats.WrittenBytes))
	m.sharedBytes.Add(float64(saved.Manifest.Stats.SharedBytes))
	m.steps(saved.Took)
}

// steps observes how long each step took.
func (m *Metrics) steps(took map[string]time.Duration) {
	for step, each := range took {
		m.phaseSeconds.WithLabelValues(step).Observe(each.Seconds())
	}
}
