// Package migrate tests moves of programs between hosts by pos_cli --migrate --to, over a real
// sshd. Read pair_test.go first.
package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// pair is two hosts with a phosd and an sshd each, which takes the other one's key. Programs move
// from one to the other, and back.
type pair struct {
	*testing.T
	from, to *hosts.Host
	phosds   map[*hosts.Host]*hosts.Daemon
	program  string
	user     string // whose programs move
}

// Directories of a program on each host: nothing below /tmp is shared.
const (
	work  = "/tmp/work"
	alone = "/tmp/alone"
)

// newPair starts both hosts.
func newPair(t *testing.T) *pair {
	t.Helper()
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	both := hosts.New(t, 2, hosts.Options{})
	p := &pair{T: t, from: both[0], to: both[1], user: "root", phosds: map[*hosts.Host]*hosts.Daemon{}}
	p.program = harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	for _, each := range both {
		p.phosds[each] = each.Phosd(2)
		each.Run("mkdir", "-p", work, alone)
	}
	hosts.StartSSHD(t, both)
	return p
}

// start starts a program on the first host, in a directory where it prints into a file.
func (p *pair) start(dir string, arguments ...string) *hosts.Command {
	p.Helper()
	const shell = `cd "$1" && shift && exec "$@" >out 2>&1 </dev/null`
	command := p.from.Program(context.Background(), append([]string{"sh", "-c", shell, "sh", dir, p.program}, arguments...)...)
	if p.user == mover {
		command.As(moverUID, moverUID)
	}
	if err := command.Start(); err != nil {
		p.Fatal(err)
	}
	return command
}

// undisturbed runs a program on the first host, and returns what it leaves.
func (p *pair) undisturbed(arguments ...string) string {
	p.Helper()
	_ = p.start(alone, arguments...).Wait() // with status 7
	return p.left(p.from, alone)
}

// left returns what a program has left in its directory.
func (p *pair) left(on *hosts.Host, dir string) string {
	p.Helper()
	return on.Run("sh", "-c", "cat "+dir+"/out "+dir+"/steps")
}

// steps returns how many steps a program has written down.
func (p *pair) steps(on *hosts.Host) int {
	p.Helper()
	return strings.Count(on.Run("sh", "-c", "cat "+work+"/steps 2>/dev/null || true"), "\n")
}

// pids returns the programs of a host.
func pids(on *hosts.Host) (all []int) {
	for _, each := range on.Status().Programs {
		all = append(all, each.PID)
	}
	return all
}

// migrate prepares the move of a program to the second host.
func (p *pair) migrate(ctx context.Context, pid int, flags ...string) *hosts.Command {
	key := hosts.SSHKey
	if p.user == mover {
		key = moverKey
	}
	return p.from.CLI(ctx, append([]string{
		"--migrate", "--pid", fmt.Sprint(pid), "--to", "ssh://" + p.user + "@" + p.to.Name, "--ssh", hosts.SSH(key),
		"--remote-pos-cli", p.to.Binary("pos_cli"),
	}, flags...)...)
}

// moves moves a program to the second host, which must succeed, and returns what is printed.
func (p *pair) moves(pid int, flags ...string) []byte {
	p.Helper()
	var out, err bytes.Buffer
	command := p.migrate(context.Background(), pid, flags...)
	command.Stdout, command.Stderr = &out, &err
	if failed := command.Run(); failed != nil {
		p.Fatalf("%v: %s%s", failed, out.String(), err.String())
	}
	return out.Bytes()
}

// awaitSteps waits until a program has made more steps.
func (p *pair) awaitSteps(on *hosts.Host, more int) {
	p.Helper()
	before := p.steps(on)
	harness.Eventually(p, "the program makes steps", func() bool { return p.steps(on) >= before+more })
}

// finish waits until the program has ended on a host, and checks what it has left.
func (p *pair) finish(on *hosts.Host, want string) {
	p.Helper()
	harness.Eventually(p, "the program ends", func() bool { return len(pids(on)) == 0 })
	if got := p.left(on, work); got != want {
		p.Errorf("it left\n%.2000s\nwant\n%.2000s", got, want)
	}
}

// nothingLeft checks that no host has anything of a migration.
func (p *pair) nothingLeft() {
	p.Helper()
	for _, each := range []*hosts.Host{p.from, p.to} {
		if left := each.Run("sh", "-c", "ls -d /dev/shm/phos-* 2>/dev/null || true"); left != "" {
			p.Errorf("%s has %s", each.Name, left)
		}
		if left := each.Run("sh", "-c", "ls "+hosts.StateHome+"/phos/moves 2>/dev/null || true"); left != "" {
			p.Errorf("%s has the state of moves: %s", each.Name, left)
		}
	}
}

// moved is what --migrate --json prints.
type moved struct {
	PID        int
	To         string
	StoodStill uint64 `json:"stood_still_microseconds"`
	Foreseen   uint64 `json:"foreseen_microseconds"`
	Sent       uint64 `json:"sent_bytes"`
	Rounds     int
}

func decode(t *testing.T, said []byte) (m moved) {
	t.Helper()
	if err := json.Unmarshal(said, &m); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return m
}
