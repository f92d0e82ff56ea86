package nested

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/tests/harness"
)

// betweenLoads names what a process does besides loading code, in the processes that
// TestVariablesLieAgain starts.
const betweenLoads = "PHOS_TEST_BETWEEN"

// TestVariablesLieAgain lets processes load and unload the same code, with other calls in between.
// A restore needs the driver to place variables at the same addresses in each process. Unloaded
// code affects the addresses too.
func TestVariablesLieAgain(t *testing.T) {
	socket, between := os.Getenv(innerSocket), os.Getenv(betweenLoads)
	if between != "" {
		t.Setenv(api.SocketVariable, socket)
		loadAndUnload(t, between)
		return
	}
	socket = innerPhosd(t)
	want := variablesOf(t, socket, "nothing", true)
	for _, test := range []struct {
		between string
		fixed   bool
	}{{"nothing", true}, {"memory", true}, {"streams", true}, {"checkpoint", true}, {"nothing", false}} {
		t.Run(fmt.Sprintf("%s,fixed=%v", test.between, test.fixed), func(t *testing.T) {
			got := variablesOf(t, socket, test.between, test.fixed)
			switch {
			case got == want:
			case test.fixed:
				t.Errorf("without it variables are at\n%s and with it at\n%s", want, got)
			default:
				t.Log("with address space randomization, the driver randomizes the addresses of variables")
			}
		})
	}
}

// variablesOf starts a process and returns the addresses of its variables. fixed disables address
// space randomization, as for a worker.
func variablesOf(t *testing.T, socket, between string, fixed bool) string {
	t.Helper()
	command := exec.Command(
		os.Args[0],
		"-test.run=^TestVariablesLieAgain$",
		"-test.v",
		"-test.timeout="+(3*harness.Patience).String(),
	)
	if fixed {
		command = exec.Command("setarch", append([]string{"-R"}, command.Args...)...)
	}
	command.Env = append(os.Environ(), innerSocket+"="+socket, betweenLoads+"="+between, "CUDA_MODULE_LOADING=EAGER")
	output, err := command.CombinedOutput()
	var lines strings.Builder
	for line := range strings.Lines(string(output)) {
		if strings.HasPrefix(line, "variable ") {
			lines.WriteString(line)
		}
	}
	if err != nil || lines.Len() == 0 {
		t.Fatalf("%v\n%s", err, output)
	}
	return lines.String()
}

// loadAndUnload loads code of many sizes, unloads every third, and prints the addresses of the
// remaining variables.
func loadAndUnload(t *testing.T, between string) {
	backend, err := cuda.Open(cuda.Options{Library: library(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	device, err := backend.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var modules []gpu.Module
	for n := range 24 {
		m, err := device.LoadModule(gpu.Image{PTX: []string{codeOf(n)}}, gpu.LoadOptions{})
		if err == nil {
			err = doBetween(between, device, backend.Devices()[0].Window, uint64(n))
		}
		if err != nil {
			t.Fatal(err)
		}
		if modules = append(modules, m); n%3 == 2 {
			if err := modules[n-1].Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n, m := range modules {
		if all := m.Globals(); n%3 != 1 || n == len(modules)-1 {
			fmt.Printf("variable %d %#x %#x %#x\n", n, all["small"].Address, all["room"].Address, all["fixed"].Address)
		}
	}
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
}

// doBetween makes the calls between loads: once before a restore, and once or not at all after it.
func doBetween(between string, device gpu.Context, window gpu.Range, n uint64) (err error) {
	switch between {
	case "memory":
		err = device.Memory().Map(
			gpu.Range{Address: window.Address + n*8*gpu.ChunkBytes, Bytes: (1 + n%5) * gpu.ChunkBytes},
		)
	case "streams":
		_, err = device.NewStream(gpu.StreamOptions{NonBlocking: n%2 == 0})
	case "checkpoint":
		r := gpu.Range{Address: window.Address + n*gpu.ChunkBytes, Bytes: gpu.ChunkBytes}
		if err = device.Memory().Map(r); err != nil || n%4 != 0 {
			return err
		}
		_, err = device.Memory().(gpu.Digester).Digests(gpu.DigestKey{1}, []gpu.Range{r})
	}
	return err
}

// codeOf returns code with initialised and constant variables of various sizes. Larger numbers have
// more instructions.
func codeOf(n int) string {
	sizes := []int{4, 3000, 70000, 1500000, 512, 5000000}
	return fmt.Sprintf(`.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 small = %d;
.visible .const .align 4 .u32 fixed[3] = {1, 2, 3};
.visible .global .align 256 .b8 room[%d];
.visible .entry fill() { .reg .b32 %%r; mov.u32 %%r, 1; st.global.u32 [room], %%r; ld.global.u32 %%r, [small]; %s ret; }
`, n, sizes[n%len(sizes)]+n, strings.Repeat("st.volatile.global.u32 [small], %r; ", n*n*n))
}

// TestVariablesRestored saves a program that loads and unloads code, and that has pointers to its
// variables in host and device memory. It restores the program twice.
func TestVariablesRestored(t *testing.T) {
	daemon := harness.StartNested(t)
	program := harness.CompileCUDA(t, "static", harness.Workload("checkpoint", "modules.cu"))
	plain := daemon.Job(t, program, "30", "0").Start()
	status := plain.Finish()
	want := plain.Result()
	job := daemon.Job(t, program, "30", "20000")
	job.Hold = true
	job.Start()
	for _, lines := range []int{9, 19} {
		job.WaitLines(lines)
		worker := daemon.Status().GetPrograms()[0].GetWorkerPid()
		if flags, err := os.ReadFile(fmt.Sprintf("/proc/%d/personality", worker)); err != nil ||
			!bytes.Contains(flags, []byte("00040000")) {
			t.Errorf("the worker has random addresses: %s, %v", flags, err)
		}
		job.Dump()
		job.WaitGone()
		job.Restore()
	}
	job.Release()
	job.FinishLike(t, "restored", want, status)
	daemon.Empty()
}
