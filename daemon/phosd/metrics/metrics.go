package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/phos-gpu/phos/daemon/api"
)

// Source is where the numbers of GPUs and programs come from. Both are called at each scrape.
type Source struct {
	// Status returns the status that root sees.
	Status func() *api.StatusReply
	// Denied counts the opens of GPUs that were denied; nil: none is.
	Denied func() uint64
}

// Metrics are phosd's numbers for Prometheus. Those of GPUs and programs are collected at each
// scrape.
type Metrics struct {
	source                  Source
	registry                *prometheus.Registry
	started, ended, refused prometheus.Counter
	startSeconds            prometheus.Histogram

	checkpoints, restores *prometheus.CounterVec
	stepSeconds           *prometheus.HistogramVec
	pauseSeconds          prometheus.Histogram
	pausePartSeconds      *prometheus.HistogramVec
	restoreSeconds        prometheus.Histogram
	writtenBytes          prometheus.Counter
	sharedBytes           prometheus.Counter
	xids                  *prometheus.CounterVec
	imagesRemoved         *prometheus.CounterVec
}

// Registry has all of them.
func (m *Metrics) Registry() prometheus.Gatherer { return m.registry }

// New returns Metrics that have counted nothing yet.
func New(source Source) *Metrics {
	m := &Metrics{
		source:   source,
		registry: prometheus.NewRegistry(),
		started: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "phos_sessions_started_total", Help: "Programs that got a worker."},
		),
		ended: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "phos_sessions_ended_total", Help: "Workers that have ended."},
		),
		refused: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "phos_sessions_refused_total", Help: "Programs that were refused."},
		),
		startSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "phos_worker_start_seconds", Help: "Time from a program's connection to its worker's start.",
			Buckets: []float64{.005, .01, .02, .05, .1, .2, .5, 1},
		}),
	}
	m.xids = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phos_gpu_errors_total", Help: "Errors (Xids) of real GPUs that their driver reported.",
	}, []string{"bus", "xid"})
	m.imagesRemoved = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phos_images_removed_total",
		Help: "Images of ended programs that phosd has removed, by reason (age, quota, empty).",
	}, []string{"reason"})
	m.countCheckpoints()
	m.registry.MustRegister(
		m.xids,
		m.started,
		m.ended,
		m.refused,
		m.startSeconds,
		m,
		m.checkpoints,
		m.restores,
		m.stepSeconds,
		m.pauseSeconds,
		m.pausePartSeconds,
		m.restoreSeconds,
		buildInfo(),
		m.writtenBytes,
		m.sharedBytes,
		m.imagesRemoved,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// buildInfo returns the metric that names the version, for joins.
func buildInfo() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "phos_build_info", Help: "1, with the version of the phosd that runs.",
		ConstLabels: prometheus.Labels{"version": api.Version, "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}

// countCheckpoints makes the metrics of checkpoints and restores.
func (m *Metrics) countCheckpoints() {
	m.checkpoints = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phos_checkpoints_total", Help: "Checkpoints, by result (done, busy, cancelled, failed) and trigger " +
			"(request, policy).",
	}, []string{"result", "by"})
	m.restores = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phos_restores_total", Help: "Restores, by result (done, refused, cancelled, failed).",
	}, []string{"result"})
	// Counters exist from the start: the increase of one that appears with the value 1 is unknown.
	m.restores.WithLabelValues(resultRefused)
	for _, result := range []string{resultDone, resultCancelled, resultFailed} {
		m.restores.WithLabelValues(result)
		for _, by := range []string{byRequest, byPolicy} {
			m.checkpoints.WithLabelValues(result, by)
			m.checkpoints.WithLabelValues(resultBusy, by)
		}
	}
	m.stepSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "phos_checkpoint_step_seconds",
		Help: "Time of the steps of checkpoints (inspect, copy, wait, pause, write) and restores (prepare, processes, " +
			"load, attach). The pause has all attempts, and contains the wait; phos_checkpoint_pause_seconds has the last one.",
		Buckets: []float64{.01, .1, 1, 10, 100},
	}, []string{"step"})
	m.restoreSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "phos_restore_seconds", Help: "Time from the request of a restore until the program runs.",
		Buckets: prometheus.ExponentialBuckets(.05, 4, 7),
	})
	m.pauseSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "phos_checkpoint_pause_seconds", Help: "Time that programs were paused for a checkpoint.",
		Buckets: prometheus.ExponentialBuckets(.001, 2, 14),
	})
	m.pausePartSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "phos_checkpoint_pause_part_seconds",
		Help: "What pauses were spent on: calls that were not done, freezing, what was saved in parallel (processes, " +
			"gpu, files), and resuming.",
		Buckets: prometheus.ExponentialBuckets(.001, 4, 7),
	}, []string{"part"})
	m.writtenBytes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "phos_checkpoint_written_bytes_total", Help: "Bytes written by checkpoints.",
	})
	m.sharedBytes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "phos_checkpoint_shared_bytes_total", Help: "Bytes of checkpoints that were already in their images.",
	})
}
