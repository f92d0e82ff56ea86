package bench

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/lab"
)

// TestSpeed prints the table. It runs when PHOS_BENCH is set, which ./build.sh bench does.
func TestSpeed(t *testing.T) {
	if os.Getenv("PHOS_BENCH") == "" {
		t.Skip("run it by ./build.sh bench")
	}
	daemon := lab.Start(t, "--log-level=warn")
	measured, program, release := runSpeed(t, daemon)
	worker := int(daemon.Status().GetPrograms()[0].GetWorkerPid())
	idle := processorShare(t, daemon.PID(), worker)
	release()
	if err := program.Wait(); err != nil {
		t.Fatal(err)
	}
	m := measured
	rows := [][4]string{
		{"cuLaunchKernel, 8 arguments", fmt.Sprintf("%.0f ns", m["launch_ns"]), "150 ns", fmt.Sprintf("a unix-socket round trip takes %.0f ns: %.0f times as long", m["socket_ns"], m["socket_ns"]/m["launch_ns"])},
		{"launched and done, one of 100", fmt.Sprintf("%.0f ns", m["launched_and_done_ns"]), "", "the worker's part and the software GPU's included"},
		{"synchronous call", fmt.Sprintf("%.0f ns", m["sync_ns"]), "1000 ns", ""},
		{"  against a bare ping-pong", ratio(m["sync_ns"], m["bare_ns"]), "3", fmt.Sprintf("which takes %.0f ns", m["bare_ns"])},
		{"worker starts (cuInit)", fmt.Sprintf("%.1f ms", m["start_ms"]), "100 ms", ""},
		{"phosd and an idle worker", fmt.Sprintf("%.2f %%", idle*100), "0.5 %", "of a core, over 10 s"},
	}
	for _, mib := range []string{"16", "128"} {
		rows = append(rows,
			[4]string{"copy to device, " + mib + " MiB", ratio(m["to_device_"+mib], m["memcpy_"+mib]), "0.7", fmt.Sprintf("of memcpy's %.1f GB/s", m["memcpy_"+mib])},
			[4]string{"copy from device, " + mib + " MiB", ratio(m["from_device_"+mib], m["memcpy_"+mib]), "0.7", ""},
			[4]string{"pinned, to device, " + mib + " MiB", ratio(m["pinned_to_"+mib], m["memcpy2_"+mib]), "0.9", fmt.Sprintf("of memcpy's %.1f GB/s", m["memcpy2_"+mib])},
			[4]string{"pinned, from device, " + mib + " MiB", ratio(m["pinned_from_"+mib], m["memcpy2_"+mib]), "0.9", ""})
	}
	rows = append(rows, interpreter(t)...)
	print(t, rows)
}

func ratio(a, b float64) string { return fmt.Sprintf("%.2f", a/b) }

func print(t *testing.T, rows [][4]string) {
	var table strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&table, "%-32s %12s   target %-8s %s\n", row[0], row[1], row[2], row[3])
	}
	t.Logf("\n%s", table.String())
}

// runSpeed runs the C program up to the point where it idles.
func runSpeed(t *testing.T, daemon *lab.Daemon) (measured map[string]float64, program *lab.Program, release func()) {
	t.Helper()
	nvcc, err := lab.Tool("NVCC")
	lab.Need(t, "nvcc", err)
	path := filepath.Join(t.TempDir(), "speed")
	compile := exec.Command("gcc", "-O2", "-I", filepath.Join(filepath.Dir(nvcc), "../include"), "testdata/speed.c", "-o", path,
		"-L"+filepath.Join(lab.Bin(), "lib"), "-l:libcuda.so.1")
	if output, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
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
	for lines := bufio.NewScanner(output); lines.Scan(); {
		name, value, found := strings.Cut(lines.Text(), " ")
		if !found {
			return measured, program, func() { input.Close() }
		}
		if measured[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the program ended early: %v: %s", program.Wait(), program.Output.String())
	return nil, nil, nil
}

// processorShare is the part of one core that processes use together, over a while.
func processorShare(t *testing.T, pids ...int) float64 {
	t.Helper()
	const while = 10 * time.Second
	before := ticks(t, pids)
	time.Sleep(while)
	const ticksPerSecond = 100
	return (ticks(t, pids) - before) / ticksPerSecond / while.Seconds()
}

func ticks(t *testing.T, pids []int) (sum float64) {
	t.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		// The name may hold spaces; what follows its parenthesis does not.
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
