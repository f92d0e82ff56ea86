package checkpoints

import (
	"path"
	"strings"

	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// family is what one checkpoint of a policy saves: a program with its descendants. If several
// programs of a launcher name one directory, it is the launcher with all of them, because one image
// has one tree.
type family struct {
	root    proc.Identity
	members []*sessions.Session
}

// has reports whether a program is saved with the family.
func (f family) has(s *sessions.Session) bool {
	return s.Record().Program == f.root || proc.Descends(s.PID(), f.root.PID)
}

// familyOf finds the family of a program whose policy names a directory. A launcher belongs to the
// program's user and was started under phos. A shell from which several programs were started one
// by one was not.
func (c *Checkpoints) familyOf(s *sessions.Session) family {
	f := family{s.Record().Program, []*sessions.Session{s}}
	uid, where := s.Record().Owner.UID, c.directoryOf(s)
	var others []*sessions.Session
	for _, other := range c.sessions.Running() {
		if other != s && where != "" && other.Record().Owner.UID == uid && c.directoryOf(other) == where {
			others = append(others, other)
		}
	}
	for pid := proc.Parent(f.root.PID); len(others) > 0 && pid > 1; pid = proc.Parent(pid) {
		above, err := proc.Of(pid)
		if err != nil || !launched(above, uid) {
			break
		}
		var rest []*sessions.Session
		for _, other := range others {
			if proc.Descends(other.PID(), pid) {
				f.root, f.members = above, append(f.members, other)
			} else {
				rest = append(rest, other)
			}
		}
		others = rest
	}
	return f
}

// Root returns the process to name for a checkpoint of a program on request: the outermost one
// above it that belongs to the same user and was started under phos. It stops below the ancestors
// of the caller, which a request cannot save.
func Root(s *sessions.Session, caller proc.Identity) proc.Identity {
	root, uid := s.Record().Program, s.Record().Owner.UID
	for pid := proc.Parent(root.PID); pid > 1; pid = proc.Parent(pid) {
		above, err := proc.Of(pid)
		if err != nil || !launched(above, uid) || proc.Descends(caller.PID, pid) {
			break
		}
		root = above
	}
	return root
}

// launched reports whether a process is a user's and was started under phos.
func launched(id proc.Identity, uid uint32) bool {
	if owner, err := id.UID(); err != nil || owner != uid {
		return false
	}
	environment, err := id.Environment()
	return err == nil && strings.Contains(environment["LD_PRELOAD"], "libphos.so")
}

// directoryOf returns the directory of a program's own policy, in the program's mount namespace; ""
// if it has none.
func (c *Checkpoints) directoryOf(s *sessions.Session) string {
	p := c.fetchPolicy(s)
	if p == nil || !p.holds || !p.Own {
		return ""
	}
	mounts, err := s.Record().Program.Namespace("mnt")
	if err != nil {
		return ""
	}
	dir := p.program.Fill(p.Dir)
	if !path.IsAbs(dir) {
		from, err := proc.WorkingDirectory(s.PID())
		if err != nil {
			return ""
		}
		dir = path.Join(from, dir)
	}
	return mounts + " " + path.Clean(dir)
}
