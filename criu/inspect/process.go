package inspect

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// checkProcesses checks the state and the rights of the processes, and whether they are traced.
func (s *inspection) checkProcesses() {
	for _, m := range s.members {
		if m.Zombie() {
			threads, err := proc.Threads(m.PID)
			s.noteUnknown(err)
			if len(threads) > 1 {
				s.refuse(
					m.String(),
					"its first thread has ended while others run; CRIU cannot save such a process",
					"",
				)
			}
			continue
		}
		s.checkTracer(m)
		s.checkExecutable(m)
		s.checkUser(m)
	}
}

// checkTracer finds debuggers: a process has at most one tracer, and CRIU must be it.
func (s *inspection) checkTracer(m *member) {
	if m.status.Tracer == 0 {
		return
	}
	tracer := m.status.Tracer // a thread
	if status, err := proc.ReadStatus(tracer); err == nil && status.Process != 0 {
		tracer = status.Process
	}
	if s.byPID[tracer] != nil {
		s.refuse(m.String(), fmt.Sprintf("is traced by pid %d of the same tree", tracer), "end the debugger's session")
		return
	}
	s.refuse(m.String(), fmt.Sprintf("is traced by pid %d (%s)", tracer, processName(tracer)), "detach the debugger")
}

// checkExecutable finds programs that were executed from a memfd. CRIU saves them, but it cannot
// restore them.
func (s *inspection) checkExecutable(m *member) {
	program, err := os.Readlink(proc.Path(m.PID, "exe"))
	s.noteUnknown(err)
	if err == nil && strings.HasPrefix(program, "/memfd:") {
		s.refuse(m.String(), "its program is a memfd, which a restore cannot execute again", "start it from a file")
	}
}

// checkUser checks that a process has no more rights than its user, because CRIU restores it with
// the user's rights.
func (s *inspection) checkUser(m *member) {
	uid, gid := s.User.UID, s.User.GID
	if uid == 0 {
		if m.status.UIDs[0] != 0 && !haveResource() {
			s.refuse(
				m.String(),
				fmt.Sprintf("belongs to user %d, but the root of the tree to root", m.status.UIDs[0]),
				"phosd needs CAP_SYS_RESOURCE for such a tree",
			)
		}
		return
	}
	if slices.ContainsFunc(m.status.UIDs[:], func(id uint32) bool { return id != uid }) ||
		slices.ContainsFunc(
			m.status.GIDs[:],
			func(id uint32) bool { return id != gid },
		) || !slices.Equal(m.status.Groups, s.User.Groups) {
		s.refuse(
			m.String(),
			fmt.Sprintf("runs as another user or in other groups than the root of the tree (%d:%d)", uid, gid),
			"save it alone",
		)
		return
	}
	if m.status.Permitted|m.status.Effective|m.status.Ambient != 0 {
		s.refuse(m.String(), "has privileges that its user does not have", "only root can save it")
		return
	}
	if m.status.Seccomp != 0 {
		s.refuse(
			m.String(),
			"has a seccomp filter; a filter is saved only for root",
			"run it without the sandbox; in a container, with --security-opt seccomp=unconfined",
		)
	}
	if !proc.Dumpable(m.PID, uid) {
		s.refuse(
			m.String(),
			"is not dumpable: its user may not read its memory",
			"run it from a file that its user may read, without raised rights",
		)
	}
}

// haveResource reports whether phosd has CAP_SYS_RESOURCE.
func haveResource() bool {
	status, err := proc.ReadStatus(os.Getpid())
	return err == nil && status.Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// namespaceKinds are the kinds of namespaces that matter.
var namespaceKinds = []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"}

// checkNamespaces finds the namespaces that CRIU must enter. All processes must be in the same
// ones.
func (s *inspection) checkNamespaces() {
	root := s.members[0]
	for _, kind := range namespaceKinds {
		// Every restored tree has its own time namespace; CRIU reads it from outside.
		if kind != "time" && root.namespaces[kind] != s.self[kind] {
			s.Namespaces = append(s.Namespaces, kind)
		}
		for _, m := range s.members[1:] {
			if !m.Zombie() && m.namespaces[kind] != root.namespaces[kind] {
				s.refuse(
					m.String(),
					fmt.Sprintf("has a %s namespace of its own", kind),
					"save it alone, or run it without its own sandbox",
				)
			}
		}
	}
	if slices.Contains(s.Namespaces, "user") {
		s.refuse(
			root.String(),
			"runs in another user namespace (a rootless container)",
			"run it outside, or in a container without user namespaces",
		)
	}
	s.checkSessions()
	if len(root.status.PIDs) > 1 && s.Root == 1 {
		s.refuse(
			root.String(),
			"is the first process of a container; only what it has started can be saved",
			"start the container with pos_cli run -- CMD, or name one of the process's children",
		)
	}
}

// checkSessions checks that the leader of every session is in the pid namespace. CRIU identifies a
// session by its leader's pid, which is 0 if the leader is in another pid namespace.
func (s *inspection) checkSessions() {
	for _, m := range s.members {
		if m.status.Session == 0 {
			s.refuse(
				m.String(),
				"belongs to a session whose leader is outside of its pid namespace",
				"start it with setsid, or from a shell that was started with it; a shell's job that was restored "+
					"in a container has lost its shell, and can only be restored from its old image",
			)
		}
	}
}
