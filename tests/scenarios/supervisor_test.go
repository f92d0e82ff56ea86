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

// TestSupervisor: whoever has started phosd as systemd does is told when programs may come and when
// it ends, and by nobody else.
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
				t.Fatalf("%s is told %q, %v, instead of %s", address, text[:n], err, want)
			}
		}
		d.Relaunch("NOTIFY_SOCKET=" + address)
		tells("READY=1")
		a := ask(t, program(d))
		a.does(1, 1)
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
		a.does(1, 2)
		a.ends(0)
		d.Empty()
	}
	// One that is not there is no reason not to serve.
	d.Relaunch("NOTIFY_SOCKET=/nowhere/notify")
	d.LogContains("cannot notify supervisor")
	d.Relaunch()
}
