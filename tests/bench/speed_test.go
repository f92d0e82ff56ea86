package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// measureCalls measures the cost of a call and of a copy.
func measureCalls(t *testing.T, b *bench) []row {
	daemon := harness.Start(t, "--log-level=warn")
	var all speeds
	var idle float64
	for range 3 * b.rounds { // the initial placement of threads and pages varies between programs
		measured, program, release := runSpeed(t, daemon)
		if all = append(all, measured); len(all) == 1 {
			worker := int(daemon.Status().GetPrograms()[0].GetWorkerPid())
			idle = processorShare(t, b.idle, daemon.PID(), worker)
		}
		release()
		if err := program.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if _, real := harness.Driver(); real {
		// The cost of a call is compared with the same GPU without phos.
		return slices.Concat(calls(all, idle), compareCalls(t, all), standbyStarts(t))
	}
	return slices.Concat(calls(all, idle), copies(all), standbyStarts(t))
}

// speeds are the measurements of several programs, by name.
type speeds []map[string]float64

// of returns the median of one measurement.
func (s speeds) of(name string) float64 {
	return s.median(func(m map[string]float64) float64 { return m[name] })
}

// ratio returns the median ratio of two measurements of the same program.
func (s speeds) ratio(name, to string) float64 {
	return s.median(func(m map[string]float64) float64 { return m[name] / m[to] })
}

func (s speeds) median(of func(m map[string]float64) float64) float64 {
	var values []float64
	for _, m := range s {
		values = append(values, of(m))
	}
	return median(values)
}

// standbyStarts compares programs with a new worker and programs with a standby worker,
// alternately.
func standbyStarts(t *testing.T) []row {
	const rounds = 15
	program := compileLinked(t, "testdata/start.c")
	fresh, standby := harness.Start(t, "--log-level=warn"), harness.Start(t, "--log-level=warn", "--workers-standby=1")
	var took [2][]float64
	for range rounds {
		for i, d := range []*harness.Daemon{fresh, standby} {
			d.Eventually(
				"a standby worker is ready",
				func() bool { return int(d.Status().GetDaemon().GetWaitingWorkers()) == i },
			)
			command := exec.Command(program)
			command.Env = d.Environment()
			text, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			each, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			if err != nil {
				t.Fatal(err)
			}
			took[i] = append(took[i], each)
		}
	}
	newWorker, standbyWorker := median(took[0]), median(took[1])
	return []row{{
		name: "start of a program", value: standbyWorker / newWorker, most: 1,
		note: fmt.Sprintf("cuInit and a context, with workers.standby, of %.1f ms with a new worker", newWorker),
	}}
}

// calls returns the rows of calls, and of the work between them.
func calls(m speeds, idle float64) []row {
	return []row{
		{
			name: "cuLaunchKernel, 8 arguments", value: m.of("launch_ns"), unit: "ns", most: 150,
			note: fmt.Sprintf(
				"%.0f of them in a unix-socket round trip of %.0f ns",
				m.ratio("socket_ns", "launch_ns"),
				m.of("socket_ns"),
			),
		},
		{
			name:  "  launched and done, one of 100",
			value: m.of("launched_and_done_ns"),
			unit:  "ns",
			note:  "the worker's part and the software GPU's included",
		},
		{name: "synchronous call", value: m.of("sync_ns"), unit: "ns", most: 1000},
		{
			name:  "  in bare ping-pongs",
			value: m.ratio("sync_ns", "bare_ns"),
			most:  3,
			note:  fmt.Sprintf("of %.0f ns: one word in shared memory, there and back", m.of("bare_ns")),
		},
		{name: "a worker starts (cuInit)", value: m.of("start_ms"), unit: "ms", most: 100},
		{name: "phosd and an idle worker", value: idle * 100, unit: "%", most: 0.5, note: "of a core"},
	}
}

// copies returns the rows of copies between the program and its GPU.
func copies(m speeds) (rows []row) {
	for _, mib := range []string{"16", "128"} {
		for _, memory := range []struct {
			name  string
			least float64
		}{{"pageable", 0.7}, {"pinned", 0.9}} {
			memcpy := memory.name + "_memcpy_" + mib
			note := fmt.Sprintf("of memcpy's %.1f GB/s", m.of(memcpy))
			rows = append(
				rows,
				row{
					name:  memory.name + " to device, " + mib + " MiB",
					value: m.ratio(memory.name+"_to_"+mib, memcpy),
					least: memory.least,
					note:  note,
				},
				row{
					name:  memory.name + " from device, " + mib + " MiB",
					value: m.ratio(memory.name+"_from_"+mib, memcpy),
					least: memory.least,
					note:  note,
				},
			)
		}
	}
	return rows
}

// runSpeed runs the C program until it idles.
func runSpeed(
	t *testing.T,
	daemon *harness.Daemon,
) (measured map[string]float64, program *harness.Program, release func()) {
	t.Helper()
	path := compileLinked(t, "testdata/speed.c")
	program = daemon.Program(path)
	program.Stdout = nil
	input, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	measured = map[string]float64{}
	defer time.AfterFunc(
		3*harness.Patience,
		func() { _ = program.Process.Kill() },
	).Stop() // do not wait long for a program that hangs
	for lines := bufio.NewScanner(output); lines.Scan(); {
		name, value, found := strings.Cut(lines.Text(), " ")
		if !found {
			return measured, program, func() { input.Close() }
		}
		if measured[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("program exited early: %v: %s", program.Wait(), program.Output.String())
	return nil, nil, nil
}

// processorShare returns the part of one core that processes use together, over some time.
func processorShare(t *testing.T, while time.Duration, pids ...int) float64 {
	t.Helper()
	before := ticks(t, pids)
	time.Sleep(while)
	return (ticks(t, pids) - before) / ticksPerSecond / while.Seconds()
}

// ticksPerSecond is the unit of processes' times in /proc.
const ticksPerSecond = 100

func ticks(t *testing.T, pids []int) (sum float64) {
	t.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		// The name may contain spaces, but not what follows its parenthesis.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, field := range fields[11:13] {
			n, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
