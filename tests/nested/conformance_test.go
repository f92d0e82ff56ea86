package nested

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/daemon/gpu/gputest"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestMain captures the output of kernels before the tests begin, because they print too.
func TestMain(m *testing.M) {
	if _, left := os.LookupEnv(leaveOutput); !left {
		if err := cuda.TakeOutput(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	status := m.Run()
	beforeExit()
	os.Exit(status)
}

// beforeExit is called before the test binary exits (counted_test.go).
var beforeExit = func() {}

// library returns our own libphos.so as the driver, or on real GPUs their driver.
func library() string {
	if real, ok := harness.Driver(); ok {
		return real
	}
	return cmp.Or(os.Getenv(otherLibrary), filepath.Join(harness.Bin(), "libphos.so"))
}

// otherLibrary names a driver in front of ours.
const otherLibrary = "PHOS_TEST_LIBRARY"

// innerPhosd starts the phosd that serves the driver, unless the driver needs none, and returns its
// socket.
func innerPhosd(t *testing.T) string {
	if _, ok := harness.Driver(); ok {
		return os.Getenv(api.SocketVariable) // of the parent process, if there is one
	}
	return harness.Start(t, "--gpus=soft:2").Socket
}

// oneGPU starts the inner phosd and returns its socket. It is for tests of that phosd, or of our
// own driver.
func oneGPU(t *testing.T) string { return harness.Start(t).Socket }

// faulty is oneGPU with a driver in front of ours (frontDriver).
func faulty(source string, flags ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Setenv(otherLibrary, frontDriver(t, source, flags...))
		return oneGPU(t)
	}
}

// innerSocket names the socket of the inner phosd in processes that run single tests.
const innerSocket = "PHOS_TEST_INNER"

// TestConformance runs the suite that every backend passes. A fault ends the driver's work for the
// whole process, so each test of a fault runs in its own process.
func TestConformance(t *testing.T) {
	socket, single := os.LookupEnv(innerSocket)
	if !single {
		socket = innerPhosd(t)
		for _, name := range []string{"address", "calls", "alias", "peer", "endless_kernel"} {
			t.Run("process/"+name, func(t *testing.T) { runAlone(t, socket, "^TestConformance$/^fault$/^"+name+"$") })
		}
	}
	t.Setenv(api.SocketVariable, socket)
	gputest.Run(t, func(t testing.TB) gpu.Backend {
		if strings.Contains(t.Name(), "/fault/") && !single {
			t.Skip("runs in its own process")
		}
		b, err := cuda.Open(cuda.Options{Library: library(), Logger: logger()})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// logger logs, on a real GPU, which calls its driver refuses.
func logger() *slog.Logger {
	if _, real := harness.Driver(); real {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// ownProcess reports whether the test has its own process, because a driver stays with its phosd as
// long as the process lives. Otherwise it runs the test again in a new process, with a phosd that
// it starts.
func ownProcess(t *testing.T, phosd func(*testing.T) string) bool {
	t.Helper()
	socket, single := os.LookupEnv(innerSocket)
	if !single {
		runAlone(t, phosd(t), "^"+t.Name()+"$")
		return false
	}
	t.Setenv(api.SocketVariable, socket)
	return true
}

// runAlone runs one test of this binary in its own process.
func runAlone(t *testing.T, socket, name string) {
	command := exec.Command(os.Args[0], "-test.run="+name, "-test.v", "-test.timeout="+(3*harness.Patience).String())
	command.Env = append(os.Environ(), innerSocket+"="+socket)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	if strings.Contains(string(output), "--- SKIP") {
		t.Skipf("skipped:\n%s", output)
	}
	if !strings.Contains(string(output), "--- PASS") {
		t.Errorf("no test ran:\n%s", output)
	}
}
