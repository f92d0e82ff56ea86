package restorer

import (
	"time"

	"github.com/phos-gpu/phos/criu/hardlink"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Role is the argument with which phosd starts itself as a keeper.
const Role = "keeper"

// orderFD is the keeper's end of the conversation with the phosd that started it.
const orderFD = 3

// Order is what a keeper is for. Fields of type File are indices into the files that come beside
// it; -1: none.
type Order struct {
	// Group is the name of the cgroup in which the tree is made. It says what the keeper's process is
	// to phosd.
	Group string `json:"group"`
	// Program is CRIU's executable.
	Program string      `json:"program"`
	User    runner.User `json:"user"`
	// Root is the pid that the root had, PIDs are those of all processes and threads in the image.
	Root int   `json:"root"`
	PIDs []int `json:"pids"`
	// NewPids: the keeper is pid 1 of a new pid namespace.
	NewPids bool `json:"new_pids,omitempty"`
	// Cgroup is the directory of the cgroup in which the keeper is started, and with it the tree;
	// empty: this process's.
	Cgroup string `json:"-"`
	Images int    `json:"images"`
	// Inherit are files under the names by which CRIU looks for them.
	Inherit []Inherited `json:"inherit,omitempty"`
	// External are the names of those among them that CRIU must be told to leave alone.
	External []string `json:"external,omitempty"`
	// Terminal is the controlling terminal of the shell's job that the tree was.
	Terminal int `json:"terminal"`
	// ShellJob: the tree was part of a session or process group of another process.
	ShellJob bool `json:"shell_job,omitempty"`
	// Connected: both ends of a TCP connection are in the tree.
	Connected bool `json:"connected,omitempty"`
	// Datagrams: datagram sockets were connected to sockets outside, which have names.
	Datagrams bool `json:"datagrams,omitempty"`
	// Outside are pids that processes had for the phosd that dumped them, by those in the image, where
	// they differ.
	Outside map[int]int `json:"outside,omitempty"`
	// Detach: nobody asks how the tree ends.
	Detach bool `json:"detach,omitempty"`
	// Place is a process where the tree shall be, Namespaces are those of its namespaces that are not
	// the keeper's.
	Place      proc.Identity `json:"place"`
	Namespaces []int         `json:"namespaces,omitempty"`
	// Written are files to be brought back, with the user's rights.
	Written []Written `json:"written,omitempty"`
	// Aliases are second names that files must have while CRIU opens them.
	Aliases []hardlink.Alias `json:"aliases,omitempty"`
	// Rooms are directories in which unix sockets are made anew. A temporary one is gone once its
	// program has ended.
	Rooms []string `json:"rooms,omitempty"`
	// Socket is the listening socket by which later phosds find the keeper.
	Socket int `json:"socket"`
	// Drain are ends whose content nobody takes: it goes to the file Log, or nowhere.
	Drain    []int     `json:"drain,omitempty"`
	Log      int       `json:"log"`
	Deadline time.Time `json:"deadline"`
}

// Inherited is a file that takes the place of one that the tree had.
type Inherited struct {
	Key  string `json:"key"`
	File int    `json:"file"`
}

// Written is a file that must be as it was, or CRIU refuses to open it.
type Written struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Mode  uint32 `json:"mode"`
	// Content is a file or pipe with what it held; -1: it must not be shorter than it was, and what is
	// longer is cut off.
	Content int `json:"content"`
	// Shared: somebody else is writing it, so it stays as it is.
	Shared bool `json:"shared,omitempty"`
}

// request is what somebody asks of a keeper whose tree is there. Only one field is set.
type request struct {
	// Commit: the restore is complete; the tree goes on, and the keeper with it.
	Commit bool `json:"commit,omitempty"`
	Kill   bool `json:"kill,omitempty"`
	Signal int  `json:"signal,omitempty"`
	// Wait is answered when the root has ended.
	Wait bool `json:"wait,omitempty"`
	// Describe is answered with Outside.
	Describe bool `json:"describe,omitempty"`
}

// answer is what it says.
type answer struct {
	fdpass.Outcome
	// Outside is as in the Order.
	Outside map[int]int `json:"outside,omitempty"`
	// Ended says that Status is the root's, as of waitpid.
	Ended  bool `json:"ended,omitempty"`
	Status int  `json:"status,omitempty"`
}
