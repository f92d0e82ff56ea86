package bench

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// withoutPhos returns a program that uses the driver without phos, for comparison.
func withoutPhos(path string, arguments ...string) *exec.Cmd {
	command := exec.Command(path, arguments...)
	command.Env = harness.NativeEnvironment()
	return command
}

// compileLinked compiles a program of the driver API.
func compileLinked(t *testing.T, source string) string {
	t.Helper()
	return harness.Compile(t, harness.GCC, "-O2", source, "-L"+filepath.Join(harness.Bin(), "lib"), "-l:libcuda.so.1")
}

// TestCompiled compiles the programs that only run on a real GPU. A machine with a GPU may have no
// compiler, and gets them from here.
func TestCompiled(t *testing.T) {
	compileLinked(t, "testdata/link.c")
	compileTool(t)
	harness.CompileC(t, true, "testdata/memory.c")
}

// hostLink is the result of testdata/link.c without phos, in gigabytes a second: copies of pinned
// memory to and from the device, which is the limit of the host's link, and copies on the device,
// counted by bytes read.
type hostLink struct{ to, from, device float64 }

// measureLink measures it once for all groups.
func (b *bench) measureLink(t *testing.T) hostLink {
	t.Helper()
	if b.link != (hostLink{}) {
		return b.link
	}
	command := withoutPhos(compileLinked(t, "testdata/link.c"), strconv.FormatUint(min(b.bytes, 1<<30), 10))
	text, err := command.Output()
	if err != nil {
		t.Fatalf("the host's link: %v\n%s", err, text)
	}
	figures := numbers(t, string(text))
	b.link = hostLink{figures["to"], figures["from"], figures["device"]}
	if b.link.to == 0 || b.link.from == 0 || b.link.device == 0 {
		t.Fatalf("the host's link: %s", text)
	}
	return b.link
}

// numbers parses lines of a name and a number.
func numbers(t *testing.T, text string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, isPair := strings.Cut(strings.TrimSpace(line), " ")
		if !isPair {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found[name] = number
	}
	return found
}

// compareCalls compares the cost of calls and copies under phos with the driver alone.
func compareCalls(t *testing.T, under speeds) (rows []row) {
	t.Helper()
	text, err := withoutPhos(compileLinked(t, "testdata/speed.c")).Output() // its input is empty, so it does not idle
	if err != nil {
		t.Fatalf("with the driver alone: %v\n%s", err, text)
	}
	alone := numbers(t, string(text))
	for _, each := range []struct{ name, figure, unit string }{
		{"cuLaunchKernel, 8 arguments", "launch_ns", "ns"},
		{"  launched and done, one of 100", "launched_and_done_ns", "ns"},
		{"synchronous call", "sync_ns", "ns"},
		{"cuInit", "start_ms", "ms"},
	} {
		rows = append(rows, row{
			name: each.name + ", in the driver's time", value: under.of(each.figure) / alone[each.figure],
			note: fmt.Sprintf("%.4g of %.4g %s", under.of(each.figure), alone[each.figure], each.unit),
		})
	}
	for _, mib := range []string{"16", "128"} {
		for _, memory := range []string{"pageable", "pinned"} {
			for _, way := range []string{"to", "from"} {
				figure := memory + "_" + way + "_" + mib
				rows = append(rows, row{
					name: fmt.Sprintf("%s %s device, %s MiB", memory, way, mib), value: under.of(figure) / alone[figure],
					note: fmt.Sprintf("%.1f of the driver's %.1f GB/s", under.of(figure), alone[figure]),
				})
			}
		}
	}
	return rows
}
