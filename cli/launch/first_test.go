package launch

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/pty"
)

// firstVariable is set in the process that runs a command as the first process of a pid namespace.
const firstVariable = "PHOS_TEST_FIRST"

// TestRunAsFirst is what TestTerminalOfFirst starts. Alone it tests nothing.
func TestRunAsFirst(t *testing.T) {
	if os.Getenv(firstVariable) == "" {
		return // not by TestTerminalOfFirst
	}
	const child = `read line; echo "child read $line"; (: </dev/tty) 2>/dev/null && echo child has a terminal; exit 7`
	err := runAsFirst("/bin/sh", []string{"sh", "-c", child}, os.Environ())
	var ended *EndedError
	if !errors.As(err, &ended) || ended.Status() != 7 {
		t.Fatalf("pid %d: got %v, want status 7", os.Getpid(), err)
	}
}

// TestTerminalOfFirst: the first process of a pid namespace gives its controlling terminal to its
// child only if it leads the session. In the session of a shell outside it takes nothing from that
// shell.
func TestTerminalOfFirst(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes a pid namespace")
	}
	const first = ` --pid --fork --kill-child "$0" -test.run '^TestRunAsFirst$' && echo ended well; `
	for _, test := range []struct {
		name, start string
		// has is set if the child has a controlling terminal.
		has bool
	}{
		{"in the shell's session", "unshare" + first, false},
		{"as leader of a session", "unshare --pid --fork --kill-child setsid --ctty --wait" + strings.TrimPrefix(
			first, " --pid --fork --kill-child"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			slave, master, err := pty.Open(25, 80)
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			script := test.start + `(: </dev/tty) && echo the shell has a terminal; echo over`
			if test.has {
				// The shell must not be the leader: then the terminal would be its own.
				script = test.start + "echo over"
			}
			shell := exec.Command("/bin/sh", "-c", script, os.Args[0])
			shell.Env = append(os.Environ(), firstVariable+"=1")
			shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
			shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: !test.has}
			if err := shell.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = shell.Process.Kill(); _ = shell.Wait() }()
			_ = slave.Close()
			if _, err := master.WriteString("this\n"); err != nil {
				t.Fatal(err)
			}
			var said []string
			lines := bufio.NewScanner(master)
			for lines.Scan() && (len(said) == 0 || said[len(said)-1] != "over") {
				said = append(said, strings.TrimSpace(lines.Text()))
			}
			if err := lines.Err(); err != nil && !errors.Is(err, unix.EIO) {
				t.Error(err)
			}
			text := strings.Join(said, "\n")
			for want, wanted := range map[string]bool{
				"child read this": true, "ended well": true, "over": true,
				"child has a terminal": test.has, "the shell has a terminal": !test.has,
			} {
				if strings.Contains(text, want) != wanted {
					t.Errorf("%q is there: %v, want %v, in:\n%s", want, !wanted, wanted, text)
				}
			}
		})
	}
}
