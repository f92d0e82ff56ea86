package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phos-gpu/phos/daemon/api"
)

var (
	describeGPUBytes = prometheus.NewDesc("phos_gpu_memory_bytes", "Memory of a GPU.", []string{"gpu", "name"}, nil)
	describeGPUUsed  = prometheus.NewDesc(
		"phos_gpu_memory_used_bytes",
		"Memory of a GPU that programs hold.",
		[]string{"gpu", "name"},
		nil,
	)
	describeDenied = prometheus.NewDesc(
		"phos_gpu_opens_denied_total",
		"Opens of GPUs by other processes that were refused (gpus.exclusive).",
		nil,
		nil,
	)
	describeGPUBusy = prometheus.NewDesc(
		"phos_gpu_busy_ratio",
		"Part of the recent time in which kernels ran on a real GPU.",
		[]string{"gpu", "name"},
		nil,
	)
	describeGPUHeat = prometheus.NewDesc(
		"phos_gpu_temperature_celsius",
		"Temperature of a real GPU.",
		[]string{"gpu", "name"},
		nil,
	)
	describeGPUPower = prometheus.NewDesc(
		"phos_gpu_power_watts",
		"Power that a real GPU draws.",
		[]string{"gpu", "name"},
		nil,
	)
	describeGPUHeld = prometheus.NewDesc(
		"phos_gpu_memory_held_bytes",
		"Memory in use on a real GPU, by any process.",
		[]string{"gpu", "name"},
		nil,
	)
	describeGPUForeign = prometheus.NewDesc(
		"phos_gpu_foreign_processes",
		"Processes on a real GPU that are not phos workers.",
		[]string{"gpu", "name"},
		nil,
	)
	describeGPUErrors = prometheus.NewDesc(
		"phos_gpu_uncorrected_errors",
		"Uncorrected memory errors of a real GPU since its driver was loaded.",
		[]string{"gpu", "name"},
		nil,
	)
	describeGPULost = prometheus.NewDesc(
		"phos_gpu_lost",
		"1 for a real GPU that is lost.",
		[]string{"gpu", "name"},
		nil,
	)
	describeWaiting      = prometheus.NewDesc("phos_workers_waiting", "Standby workers that are ready.", nil, nil)
	describeWaitingBytes = prometheus.NewDesc(
		"phos_workers_waiting_memory_bytes",
		"Memory of a GPU that standby workers hold.",
		[]string{"gpu"},
		nil,
	)
	describeWarnings = prometheus.NewDesc(
		"phos_warnings",
		"Number of warnings that pos_cli --status shows.",
		nil,
		nil,
	)
	describeHeldBytes = prometheus.NewDesc(
		"phos_user_held_bytes",
		"Bytes that a user holds of what users share, by the setting with the limit.",
		[]string{"user", "setting"},
		nil,
	)
	describeLimitBytes = prometheus.NewDesc(
		"phos_user_limit_bytes",
		"Bytes that a user may hold of what users share, by the setting with the limit; missing without a limit.",
		[]string{"user", "setting"},
		nil,
	)
	describePrograms = prometheus.NewDesc("phos_programs", "Running programs.", nil, nil)
	describeCalls    = prometheus.NewDesc(
		"phos_program_calls_total",
		"Driver calls that a program has completed.",
		[]string{"pid", "job"},
		nil,
	)
	describeSaved = prometheus.NewDesc(
		"phos_program_checkpoint_timestamp_seconds",
		"Time of a program's last checkpoint.",
		[]string{"pid", "job"},
		nil,
	)
	describeSaveFailed = prometheus.NewDesc(
		"phos_program_checkpoint_failed",
		"1 if the last checkpoint of a program failed.",
		[]string{"pid", "job"},
		nil,
	)
	describeDue = prometheus.NewDesc(
		"phos_program_checkpoint_due_timestamp_seconds",
		"Time of a program's next checkpoint by its policy.",
		[]string{"pid", "job"},
		nil,
	)
	describePendingAge = prometheus.NewDesc(
		"phos_program_pending_seconds",
		"Age of a program's oldest unfinished call or stream.",
		[]string{"pid", "job"},
		nil,
	)
)

// Describe is empty: the metrics depend on the running programs.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect asks phosd and its workers.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	status := m.source.Status()
	for _, gpu := range status.GetGpus() {
		labels := []string{strconv.Itoa(int(gpu.GetIndex())), gpu.GetName()}
		gauge(describeGPUBytes, float64(gpu.GetMemoryBytes()), labels...)
		gauge(describeGPUUsed, float64(gpu.GetUsedBytes()), labels...)
		collectHardware(gpu.GetHardware(), func(desc *prometheus.Desc, value float64) { gauge(desc, value, labels...) })
	}
	if m.source.Denied != nil {
		out <- prometheus.MustNewConstMetric(describeDenied, prometheus.CounterValue, float64(m.source.Denied()))
	}
	gauge(describeWaiting, float64(status.GetDaemon().GetWaitingWorkers()))
	for i, bytes := range status.GetDaemon().GetWaitingBytes() {
		gauge(describeWaitingBytes, float64(bytes), strconv.Itoa(i))
	}
	gauge(describeWarnings, float64(len(status.GetDaemon().GetWarnings())))
	collectUses(status.GetUses(), gauge)
	gauge(describePrograms, float64(len(status.GetPrograms())))
	for _, program := range status.GetPrograms() {
		labels := []string{strconv.Itoa(int(program.GetPid())), program.GetDescription().GetJobName()}
		progress := program.GetDescription().GetProgress()
		out <- prometheus.MustNewConstMetric(describeCalls, prometheus.CounterValue, float64(progress.GetCallsCompleted()),
			labels...)
		gauge(describePendingAge, float64(progress.GetPendingMilliseconds())/1000, labels...)
		collectSaves(program, func(desc *prometheus.Desc, value float64) { gauge(desc, value, labels...) })
	}
}

// collectUses yields the bytes that each user holds and may hold.
func collectUses(uses []*api.Use, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	for _, use := range uses {
		if !use.GetBytes() {
			continue
		}
		gauge(describeHeldBytes, float64(use.GetUsed()), use.GetUser(), use.GetKey())
		if use.Limit != nil {
			gauge(describeLimitBytes, float64(use.GetLimit()), use.GetUser(), use.GetKey())
		}
	}
}

// collectHardware yields what the driver reports about a real GPU. A value that it does not report
// is missing.
func collectHardware(hardware *api.Hardware, gauge func(*prometheus.Desc, float64)) {
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

// collectSaves yields what became of a program's checkpoints.
func collectSaves(program *api.Program, gauge func(*prometheus.Desc, float64)) {
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
