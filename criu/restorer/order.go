package restorer

import (
	"net/netip"
	"time"

	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/criu/hardlink"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Role is the argument with which phosd starts itself as a restorer. Like the other words that
// other versions of phosd may see, it keeps its old name.
const Role = "restorer"

// orderFD is the restorer's connection to the phosd that started it.
const orderFD = 3

// Order is sent to a restorer by phosd. Fields that name a file are indices into the files that are
// sent with it; -1 means none. Some JSON names are older than the names of the fields, and stay:
// they are in use between processes.
type Order struct {
	// Group is the name of the tree's cgroup. It contains the restorer's process as phosd sees it.
	Group string `json:"group"`
	// StartGroup is the name of the cgroup in which CRIU runs and creates the tree.
	StartGroup string `json:"start_group"`
	// Program is CRIU's executable.
	Program string      `json:"program"`
	User    runner.User `json:"user"`
	// Root is the pid that the root had; PIDs are those of all processes and threads in the image.
	Root int   `json:"root"`
	PIDs []int `json:"pids"`
	// NewPids is set if the restorer is pid 1 of a new pid namespace.
	NewPids bool `json:"new_pids,omitempty"`
	// Cgroup is the directory of the cgroup in which the restorer and so the tree start; empty
	// means phosd's own.
	Cgroup string `json:"-"`
	Images int    `json:"images"`
	// Started is called with the restorer's process, before there is any of the tree.
	Started func(proc.Identity) `json:"-"`
	// Inherit are files by the names under which CRIU looks for them.
	Inherit []Inherited `json:"inherit,omitempty"`
	// External are the names of those that CRIU must treat as external.
	External []string `json:"external,omitempty"`
	// Terminal is the controlling terminal of the shell's job.
	Terminal int `json:"terminal"`
	// ShellJob is set if the tree was in a session or process group of another process.
	ShellJob bool `json:"shell_job,omitempty"`
	// Connected is set if both ends of a TCP connection are in the tree.
	Connected bool `json:"connected,omitempty"`
	// Listening are the TCP addresses on which the tree listens.
	Listening []netip.AddrPort `json:"listening,omitempty"`
	// Datagrams is set if datagram sockets were connected to named sockets outside.
	Datagrams bool `json:"datagrams,omitempty"`
	// Outside maps pids in the image to those in the pid namespace of the phosd that dumped them,
	// where they differ.
	Outside map[int]int `json:"outside,omitempty"`
	// Detach is set if no client will ask for the exit status.
	Detach bool `json:"detach,omitempty"`
	// Place is a process whose namespaces the tree joins. Namespaces are those that differ from the
	// restorer's.
	Place      proc.Identity `json:"place"`
	Namespaces []int         `json:"namespaces,omitempty"`
	// Written are files to restore, with the user's rights.
	Written []Written `json:"written,omitempty"`
	// Links are removed names that files need while CRIU opens them.
	Links []hardlink.Link `json:"aliases,omitempty"`
	// SocketDirs are directories in which unix sockets are bound again. A temporary one may have been
	// removed with its program.
	SocketDirs []string `json:"rooms,omitempty"`
	// Pager is the link to the pager that gives the tree its memory. With Eager the restore is
	// complete when all of it is there.
	Pager int  `json:"pager"`
	Eager bool `json:"eager,omitempty"`
	// Socket is the listening socket by which later phosds find the restorer.
	Socket int `json:"socket"`
	// Drain are ends without a reader. Their output is copied to the file Log, if there is one;
	// LogJSON is the form of its lines.
	Drain    []int     `json:"drain,omitempty"`
	Log      int       `json:"log"`
	LogJSON  bool      `json:"log_json,omitempty"`
	Deadline time.Time `json:"deadline"`
}

// Inherited is a file that replaces one that the tree had.
type Inherited struct {
	Key  string `json:"key"`
	File int    `json:"file"`
}

// Written is a file that must be as it was, or CRIU refuses to open it.
type Written struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Mode  uint32 `json:"mode"`
	// Content is a file or pipe with the file's content. With -1 the file must not be shorter than
	// Bytes, and is truncated to it.
	Content int `json:"content"`
	// Shared is set if the file is kept, for example because another program is writing it. Its
	// content is left alone then, and only extended to Bytes.
	Shared bool `json:"shared,omitempty"`
	// Seen is the file for which all this was decided; nil means any.
	Seen *savedfile.Seen `json:"seen,omitempty"`
	// CopyTo, if not empty, is a path to which the content from CopyFrom on is copied first.
	CopyTo   string `json:"copy_to,omitempty"`
	CopyFrom int64  `json:"copy_from,omitempty"`
}

// request is sent to a restorer that has restored its tree. Only one field is set.
type request struct {
	// Commit: the restore is complete; the restorer resumes the tree.
	Commit bool `json:"commit,omitempty"`
	Kill   bool `json:"kill,omitempty"`
	Signal int  `json:"signal,omitempty"`
	// Wait is answered when the root has ended.
	Wait bool `json:"wait,omitempty"`
	// Describe is answered with Outside, Loading, Tracks and Uncommitted.
	Describe bool `json:"describe,omitempty"`
	// Loaded is answered when all memory is there.
	Loaded bool `json:"loaded,omitempty"`
	// Track is a pid in the image. The answer has the process's userfaultfd, to track its writes.
	Track int `json:"track,omitempty"`
	// Forget is a pid in the image: the process has another userfaultfd from now on.
	Forget int `json:"forget,omitempty"`
}

// answer is the restorer's reply.
type answer struct {
	fdpass.Outcome
	// Outside is as in the Order.
	Outside map[int]int `json:"outside,omitempty"`
	// Loading is set while memory is still coming.
	Loading bool `json:"loading,omitempty"`
	// Tracks is set by a restorer that knows the request Track.
	Tracks bool `json:"tracks,omitempty"`
	// Uncommitted is set before the Commit: if phosd ends, the tree is killed.
	Uncommitted bool `json:"uncommitted,omitempty"`
	// Lost says why the restorer has killed the tree.
	Lost string `json:"lost,omitempty"`
	// Ended is set if Status is the root's exit status, as of waitpid.
	Ended  bool `json:"ended,omitempty"`
	Status int  `json:"status,omitempty"`
}
