package phosd_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/config"
)

// TestFilesMadeLonger checks that a program which makes its session's files longer loses its
// session, and that others are not affected.
func TestFilesMadeLonger(t *testing.T) {
	const ordinary, other = 65534, 65533
	l := newLab(t, func(c *config.Config) {
		c.Sessions.TmpfsSize = 64 << 20
		c.Sessions.ArenaSize = 2 << 20
		c.Sessions.ProgramsPerUser = 8 // so that a kernel with quotas leaves it to phosd
	})
	if warnings := l.status().GetDaemon().GetWarnings(); len(warnings) > 0 {
		t.Skip(warnings)
	}
	bystander := l.run(asUser(other))
	bystander.says("live 1")
	greedy := l.run(asUser(ordinary))
	greedy.says("live 2")
	greedy.do("create")
	greedy.says("created open " + l.settings.RuntimeDir + "/sessions/2/more: permission denied")
	for _, what := range []string{"while it has a session", "after that"} {
		greedy.do("lengthen")
		if line := greedy.says("lengthened"); line != "lengthened <nil>" {
			t.Fatalf("%s: %s", what, line)
		}
		l.eventually("the memory is free again "+what, func() bool { return l.sessionsHold() < 20<<20 })
	}
	greedy.do("dead?")
	greedy.says("dead")
	programs := l.status().GetPrograms()
	if len(programs) != 1 || int(programs[0].GetPid()) != bystander.Process.Pid {
		t.Errorf("left: %v; want the bystander", programs)
	}
	for _, want := range []string{"session=2", fmt.Sprint("pid=", greedy.Process.Pid), "bytes=", "given="} {
		line, found := l.logLine("session files filled beyond what was reserved")
		if !found || !strings.Contains(line, want) {
			t.Errorf("the log says %q, without %s", line, want)
		}
	}
}

// sessionsHold is the use of the memory for sessions, in bytes.
func (l *lab) sessionsHold() uint64 {
	l.t.Helper()
	var info unix.Statfs_t
	if err := unix.Statfs(filepath.Join(l.settings.RuntimeDir, "sessions"), &info); err != nil {
		l.t.Fatal(err)
	}
	return (info.Blocks - info.Bfree) * uint64(info.Bsize)
}

func (l *lab) logLine(part string) (line string, found bool) {
	for line := range strings.Lines(l.log()) {
		if strings.Contains(line, part) {
			return line, true
		}
	}
	return "", false
}
