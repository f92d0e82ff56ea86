package migrate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// refused checks that a move fails with a text, and that the program runs on.
func (p *pair) refused(pid int, text string, flags ...string) {
	p.Helper()
	said, err := p.migrate(context.Background(), pid, flags...).CombinedOutput()
	if err == nil || !strings.Contains(string(said), text) {
		p.Errorf("%q: got %v: %s\nwant an error with %q", flags, err, said, text)
	}
	if got := pids(p.from); len(got) != 1 || got[0] != pid || len(pids(p.to)) > 0 {
		p.Errorf("%q: the hosts have %v and %v", flags, got, pids(p.to))
	}
	p.awaitSteps(p.from, 2)
	p.nothingLeft()
}

// TestRefused: what cannot move runs on, and the error says why.
func TestRefused(t *testing.T) {
	p := newPair(t)
	program := p.start(work, "100000", "20000", "10000", work+"/end")
	p.awaitSteps(p.from, 3)
	pid := program.PID()
	p.refused(pid, "GPU", "--gpus", "7")
	p.refused(pid, "--remote-pos-cli names the pos_cli there", "--remote-pos-cli", "/nowhere/pos_cli")
	p.refused(pid, "would stand still for about", "--pause", "1ns")
	p.refused(pid, "not found", "--ssh", "no-such-ssh")
	p.refused(pid, "not a message of a migration", "--remote-pos-cli", "echo")
	// A shell there that greets whoever comes, and a child that keeps the output open.
	p.refused(pid, "not a message of a migration", "--ssh", p.wrapper("greets", `echo "Last login: today"; exec "$@"`))
	p.refused(pid, "GPU", "--gpus", "7", "--ssh", p.wrapper("lingers", `sleep 1000 </dev/null & exec "$@"`))

	p.to.Run("rm", "-r", work) // its directory
	p.refused(pid, work)
	p.to.Run("mkdir", work)

	full := "size=1m"
	p.to.Run("mount", "-o", "remount,"+full, "/dev/shm")
	p.refused(pid, "make room in /dev/shm there")
	p.to.Run("mount", "-o", "remount,size=1g", "/dev/shm")

	p.phosds[p.to].Kill()
	said, err := p.migrate(context.Background(), pid).CombinedOutput()
	if err == nil || !strings.Contains(string(said), p.to.Name) || !strings.Contains(string(said), "phosd") {
		t.Errorf("without a phosd there: %v: %s", err, said)
	}
	p.phosds[p.to].Start()
	p.awaitSteps(p.from, 2)

	said = p.moves(pid)
	if want := fmt.Sprintf("pid %d runs on ssh://root@%s: stood still ", pid, p.to.Name); !strings.Contains(string(said), want) {
		t.Errorf("it says %s", said)
	}
	p.awaitSteps(p.to, 2)
	p.nothingLeft()
}

// wrapper returns a command that does more than to call ssh.
func (p *pair) wrapper(name, script string) string {
	p.Helper()
	path := "/run/" + name
	p.from.Run("sh", "-c", `printf '#!/bin/sh\n%s\n' "$1" >"$2" && chmod +x "$2"`, "sh", script, path)
	return path + " " + hosts.SSH(hosts.SSHKey)
}

// TestTakenPid: a pid that is taken there is named, and --new-pids helps.
func TestTakenPid(t *testing.T) {
	p := newPair(t)
	program := p.start(work, "100000", "20000", "10000", work+"/end")
	p.awaitSteps(p.from, 3)
	pid := program.PID()
	p.take(p.to, pid)
	p.refused(pid, fmt.Sprintf("pid %d", pid))
	p.moves(pid, "--new-pids")
	p.awaitSteps(p.to, 2)
	if got := pids(p.to); len(got) != 1 || got[0] == pid || len(pids(p.from)) > 0 {
		t.Errorf("the hosts have %v and %v", pids(p.from), got)
	}
}

// take starts a process with a pid.
func (p *pair) take(on *hosts.Host, pid int) {
	p.Helper()
	on.Start("taker", "sh", "-ec", `echo "$1" >/proc/sys/kernel/ns_last_pid; sleep 1000 & wait`, "sh", fmt.Sprint(pid-1))
	harness.Eventually(p, "the pid is taken", func() bool {
		return strings.Contains(on.Run("ps", "-p", fmt.Sprint(pid), "-o", "comm=", "--no-headers"), "sleep")
	})
}
