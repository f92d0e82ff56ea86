package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/rpc"
)

// metrics are phosd's numbers for Prometheus. Those of GPUs and programs are collected when somebody asks.
type metrics struct {
	daemon                  *Daemon
	registry                *prometheus.Registry
	started, ended, refused prometheus.Counter
	startSeconds            prometheus.Histogram

	checkpoints, restores *prometheus.CounterVec
	phaseSeconds          *prometheus.HistogramVec
	pauseSeconds          prometheus.Histogram
	writtenBytes          prometheus.Counter
	sharedBytes           prometheus.Counter
	xids                  *prometheus.CounterVec
}

var (
	describeGPUBytes     = prometheus.NewDesc("phos_gpu_memory_bytes", "Memory of a GPU.", []string{"gpu", "name"}, nil)
	describeGPUUsed      = prometheus.NewDesc("phos_gpu_memory_used_bytes", "Memory of a GPU that programs hold.", []string{"gpu", "name"}, nil)
	describeDenied       = prometheus.NewDesc("phos_gpu_opens_denied_total", "Opens of GPUs by other processes that were refused (gpus.exclusive).", nil, nil)
	describeGPUBusy      = prometheus.NewDesc("phos_gpu_busy_ratio", "How much of the last moments something ran on a real GPU.", []string{"gpu", "name"}, nil)
	describeGPUHeat      = prometheus.NewDesc("phos_gpu_temperature_celsius", "Temperature of a real GPU.", []string{"gpu", "name"}, nil)
	describeGPUPower     = prometheus.NewDesc("phos_gpu_power_watts", "Power that a real GPU draws.", []string{"gpu", "name"}, nil)
	describeGPUHeld      = prometheus.NewDesc("phos_gpu_memory_held_bytes", "Memory of a real GPU that anybody holds, as its driver says.", []string{"gpu", "name"}, nil)
	describeGPUForeign   = prometheus.NewDesc("phos_gpu_foreign_processes", "Processes on a real GPU that are not phos's.", []string{"gpu", "name"}, nil)
	describeGPUErrors    = prometheus.NewDesc("phos_gpu_uncorrected_errors", "Uncorrected memory errors of a real GPU since its driver was loaded.", []string{"gpu", "name"}, nil)
	describeGPULost      = prometheus.NewDesc("phos_gpu_lost", "1 for a real GPU that serves nobody any more.", []string{"gpu", "name"}, nil)
	describeWaiting      = prometheus.NewDesc("phos_workers_waiting", "Workers that wait for programs.", nil, nil)
	describeWaitingBytes = prometheus.NewDesc("phos_workers_waiting_memory_bytes", "Memory of a GPU that they hold.", []string{"gpu"}, nil)
	describePrograms     = prometheus.NewDesc("phos_programs", "Programs that run.", nil, nil)
	describeCalls        = prometheus.NewDesc("phos_program_calls_total", "Driver calls that a program has completed.", []string{"pid", "job"}, nil)
	describeSaved        = prometheus.NewDesc("phos_program_checkpoint_timestamp_seconds", "When a program was saved last.", []string{"pid", "job"}, nil)
	describeSaveFailed   = prometheus.NewDesc("phos_program_checkpoint_failed", "1 while the last attempt to save a program has failed.", []string{"pid", "job"}, nil)
	describeDue          = prometheus.NewDesc("phos_program_checkpoint_due_timestamp_seconds", "When a program's policy wants it saved next.", []string{"pid", "job"}, nil)
	describePendingAge   = prometheus.NewDesc("phos_program_pending_seconds", "Age of a program's oldest unfinished call or stream.", []string{"pid", "job"}, nil)
)

func newMetrics(d *Daemon) *metrics {
	m := &metrics{
		daemon:   d,
		registry: prometheus.NewRegistry(),
		started:  prometheus.NewCounter(prometheus.CounterOpts{Name: "phos_sessions_started_total", Help: "Programs that got a worker."}),
		ended:    prometheus.NewCounter(prometheus.CounterOpts{Name: "phos_sessions_ended_total", Help: "Workers that are gone."}),
		refused:  prometheus.NewCounter(prometheus.CounterOpts{Name: "phos_sessions_refused_total", Help: "Programs that got no worker."}),
		startSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "phos_worker_start_seconds", Help: "Time from a program's connection to its worker's start.",
			Buckets: []float64{.005, .01, .02, .05, .1, .2, .5, 1},
		}),
	}
	m.xids = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phos_gpu_errors_total", Help: "Errors (Xids) of real GPUs that their driver has reported.",
	}, []string{"bus", "xid"})
	m.countCheckpoints()
	m.registry.MustRegister(m.xids, m.started, m.ended, m.refused, m.startSeconds, m, m.checkpoints, m.restores, m.phaseSeconds,
		m.pauseSeconds, m.writtenBytes, m.sharedBytes, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Describe is empty: what Collect yields depends on the programs that run.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect asks everything that runs.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	status := m.daemon.status(context.Background(), rpc.Actor{})
	for _, gpu := range status.GetGpus() {
		labels := []string{strconv.Itoa(int(gpu.GetIndex())), gpu.GetName()}
		gauge(describeGPUBytes, float64(gpu.GetMemoryBytes()), labels...)
		gauge(describeGPUUsed, float64(gpu.GetUsedBytes()), labels...)
		collectHardware(gpu.GetHardware(), func(desc *prometheus.Desc, value float64) { gauge(desc, value, labels...) })
	}
	if guard := m.daemon.options.Guard; guard != nil {
		out <- prometheus.MustNewConstMetric(describeDenied, prometheus.CounterValue, float64(guard.Denied()))
	}
	gauge(describeWaiting, float64(status.GetDaemon().GetWaitingWorkers()))
	for i, bytes := range status.GetDaemon().GetWaitingBytes() {
		gauge(describeWaitingBytes, float64(bytes), strconv.Itoa(i))
	}
	gauge(describePrograms, float64(len(status.GetPrograms())))
	for _, program := range status.GetPrograms() {
		labels := []string{strconv.Itoa(int(program.GetPid())), program.GetDescription().GetJobName()}
		progress := program.GetDescription().GetProgress()
		out <- prometheus.MustNewConstMetric(describeCalls, prometheus.CounterValue, float64(progress.GetCallsCompleted()), labels...)
		gauge(describePendingAge, float64(progress.GetPendingMilliseconds())/1000, labels...)
		collectSaves(program, func(desc *prometheus.Desc, value float64) { gauge(desc, value, labels...) })
	}
}

// collectHardware yields what the driver says of a real GPU. What it does not say has no number.
func collectHardware(hardware *rpc.Hardware, gauge func(*prometheus.Desc, float64)) {
	if hardware == nil {
		return
	}
	yield := func(desc *prometheus.Desc, value *uint32, unit float64) {
		if value != nil {
			gauge(desc, float64(*value)*unit)
		}
	}
	yield(describeGPUBusy, hardware.BusyPercent, .01)
	yield(describeGPUHeat, hardware.TemperatureCelsius, 1)
	yield(describeGPUPower, hardware.PowerMilliwatts, .001)
	if hardware.UsedBytes != nil {
		gauge(describeGPUHeld, float64(hardware.GetUsedBytes()))
	}
	if hardware.UncorrectedErrors != nil {
		gauge(describeGPUErrors, float64(hardware.GetUncorrectedErrors()))
	}
	gauge(describeGPUForeign, float64(len(hardware.GetForeign())))
	lost := 0.0
	if hardware.GetLost() != "" {
		lost = 1
	}
	gauge(describeGPULost, lost)
}

// collectSaves yields what became of a program's checkpoints. What never was has no number.
func collectSaves(program *rpc.Program, gauge func(*prometheus.Desc, float64)) {
	if last := program.GetLastCheckpointUnixMilliseconds(); last > 0 {
		gauge(describeSaved, float64(last)/1000)
	}
	if due := program.GetNextCheckpointUnixMilliseconds(); due > 0 {
		gauge(describeDue, float64(due)/1000)
	}
	switch {
	case program.GetCheckpointError() != "":
		gauge(describeSaveFailed, 1)
	case program.GetLastCheckpointUnixMilliseconds() > 0 || program.GetPolicy() != nil:
		gauge(describeSaveFailed, 0)
	}
}

// serve answers at the configured address until the returned function is called.
func (m *metrics) serve(settings config.Metrics) (func() error, error) {
	if settings.Listen == "" {
		return func() error { return nil }, nil
	}
	network, address := settings.Network()
	if network == "unix" {
		if err := os.Remove(address); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if network == "unix" {
		// The numbers are about all users' programs.
		if err := os.Chmod(address, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("metrics: %w", err), listener.Close())
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // it returns an error whenever it is closed
	return server.Close, nil
}

// countCheckpoints makes the numbers of checkpoints and restores.
func (m *metrics) countCheckpoints() {
	m.checkpoints = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "phos_checkpoints_total", Help: "Checkpoints, by how they ended (done, busy, cancelled, failed) and who wanted them (request, policy).",
	}, []string{"result", "by"})
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
	m.sharedBytes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "phos_checkpoint_shared_bytes_total", Help: "Bytes of checkpoints that were in their images already.",
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

func (m *metrics) checkpointed(saved *ckpt.Saved, err error, byPolicy bool) {
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

func (m *metrics) steps(took map[string]time.Duration) {
	for step, each := range took {
		m.phaseSeconds.WithLabelValues(step).Observe(each.Seconds())
	}
}
