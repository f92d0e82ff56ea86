package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phos-gpu/phos/ckpt"
)

// countCheckpoints makes the numbers of checkpoints and restores.
func (m *metrics) countCheckpoints() {
	m.checkpoints = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phos_checkpoints_total", Help: "Checkpoints, by how they ended: done, busy, cancelled, failed.",
	}, []string{"result"})
	m.restores = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phos_restores_total", Help: "Restores, by how they ended: done, cancelled, failed.",
	}, []string{"result"})
	m.phaseSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "phos_checkpoint_step_seconds", Help: "Time of the steps of checkpoints and restores.",
		Buckets: prometheus.ExponentialBuckets(.001, 4, 10),
	}, []string{"step"})
	m.pauseSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "phos_checkpoint_pause_seconds", Help: "Time that programs stood still for a checkpoint.",
		Buckets: prometheus.ExponentialBuckets(.001, 2, 14),
	})
	m.writtenBytes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "phos_checkpoint_written_bytes_total", Help: "Bytes that checkpoints have written.",
	})
}

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

func (m *metrics) checkpointed(saved *ckpt.Saved, err error) {
	m.checkpoints.WithLabelValues(result(err)).Inc()
	if saved == nil {
		return
	}
	m.pauseSeconds.Observe(saved.Pause.Seconds())
	m.writtenBytes.Add(float64(saved.Manifest.Stats.WrittenBytes))
	m.steps(saved.Took)
}

func (m *metrics) steps(took map[string]time.Duration) {
	for step, each := range took {
		m.phaseSeconds.WithLabelValues(step).Observe(each.Seconds())
	}
}
