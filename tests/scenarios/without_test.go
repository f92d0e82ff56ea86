package scenarios

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestWithoutPhos: a program that was started without phos is saved, and the caller is told that
// nothing of a GPU is. Of a program under phos nothing is said.
func TestWithoutPhos(t *testing.T) {
	const notice = "no process of pid %d uses a GPU through phos: only its CPU half is saved; " +
		"was it started with pos_cli run or env $phos?"
	d := start(t)
	plain := exec.Command("sleep", "1000")
	plain.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := plain.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Process.Kill(); _ = plain.Wait() })
	said := mustCLI(t, d, "--pre-dump", "--dir", image(t), "--pid", fmt.Sprint(plain.Process.Pid))
	if want := fmt.Sprintf(notice, plain.Process.Pid); !strings.Contains(said, want) {
		t.Errorf("got %q, want %q in it", said, want)
	}
	under := stepperCommand(t, program(d))
	said = mustCLI(t, d, "--pre-dump", "--dir", image(t), "--pid", fmt.Sprint(under.pid))
	if strings.Contains(said, "CPU half") {
		t.Errorf("of a program under phos: %q", said)
	}
	under.finish(0)
}
