package daemon

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/process"
)

// family is what one checkpoint of a policy saves: a program with what it has started. Where programs that a launcher has
// started name one directory, it is the launcher with all of them, for one image has one tree.
type family struct {
	root    process.Identity
	members []*session
}

// has reports whether a program is saved with the family.
func (f family) has(s *session) bool {
	return s.record.Program == f.root || descends(s.record.Program.PID, f.root.PID)
}

// familyOf finds the family of a program whose policy says where to. A launcher is the program's user's, and was started under
// phos itself: a shell from which several programs were started one by one was not.
func (d *Daemon) familyOf(s *session) family {
	f := family{s.record.Program, []*session{s}}
	where := d.whereOf(s)
	var others []*session
	for _, other := range d.table.running() {
		if other != s && where != "" && other.record.Owner.UID == s.record.Owner.UID && d.whereOf(other) == where {
			others = append(others, other)
		}
	}
	for pid := parentOf(f.root.PID); len(others) > 0 && pid > 1; pid = parentOf(pid) {
		above, err := process.Of(pid)
		if err != nil || !launched(above, s.record.Owner.UID) {
			break
		}
		var rest []*session
		for _, other := range others {
			if descends(other.record.Program.PID, pid) {
				f.root, f.members = above, append(f.members, other)
			} else {
				rest = append(rest, other)
			}
		}
		others = rest
	}
	return f
}

// launched reports whether a process is a user's, and was started under phos.
func launched(id process.Identity, uid uint32) bool {
	var info unix.Stat_t
	if err := unix.Stat("/proc/"+strconv.Itoa(id.PID), &info); err != nil || info.Uid != uid {
		return false
	}
	environment, err := id.Environment()
	return err == nil && strings.Contains(environment["LD_PRELOAD"], "libphos.so")
}

// whereOf is the directory that a program's own policy names, as the program would call it; empty where there is none.
func (d *Daemon) whereOf(s *session) string {
	known := d.askPolicy(s)
	if known == nil || !known.holds || !known.Own {
		return ""
	}
	mounts, err := s.record.Program.Namespace("mnt")
	if err != nil {
		return ""
	}
	dir := known.program.Fill(known.Dir)
	if !path.IsAbs(dir) {
		from, err := os.Readlink("/proc/" + strconv.Itoa(s.record.Program.PID) + "/cwd")
		if err != nil {
			return ""
		}
		dir = path.Join(from, dir)
	}
	return mounts + " " + path.Clean(dir)
}
