package scenarios

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestSupervisor: phosd, and no child process, notifies a supervisor with systemd's protocol when
// it is ready and when it stops.
func TestSupervisor(t *testing.T) {
	harness.Need(t, "python", missing(python))
	d := harness.Start(t)
	for _, address := range []string{filepath.Join(open(t), "notify"), fmt.Sprintf("@phos-test-%d", os.Getpid())} {
		above, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer above.Close()
		tells := func(want string) {
			t.Helper()
			text := make([]byte, 4096)
			_ = above.SetReadDeadline(time.Now().Add(harness.Patience))
			n, err := above.Read(text)
			if err != nil || !strings.Contains("\n"+string(text[:n]), "\n"+want+"\n") {
				t.Fatalf("%s received %q, %v, want %s", address, text[:n], err, want)
			}
		}
		d.Relaunch("NOTIFY_SOCKET=" + address)
		tells("READY=1")
		a := stepperCommand(t, program(d))
		a.step(1, 1)
		worker := d.Status().GetPrograms()[0].GetWorkerPid()
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", worker))
		if err != nil || strings.Contains(string(environment), "NOTIFY_SOCKET") {
			t.Errorf("worker %d has %q, %v", worker, environment, err)
		}
		if err := syscall.Kill(d.PID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		tells("STOPPING=1")
		d.Await()
		d.Launch()
		tells("READY=1")
		a.step(1, 2)
		a.finish(0)
		d.Empty()
	}
	// phosd also works without a reachable supervisor.
	d.Relaunch("NOTIFY_SOCKET=/nowhere/notify")
	d.LogContains("cannot notify supervisor")
	d.Relaunch()
}
