package watchdog

import (
	"context"
	"errors"
	"time"

	"github.com/phos-gpu/phos/criu/hardlink"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Role is the argument with which phosd starts itself as a watchdog.
const Role = "watchdog"

// orderFD is the watchdog's end of the conversation.
const orderFD = 3

// order is what phosd says. Only one field is set.
type order struct {
	Ready  *ready  `json:"ready,omitempty"`
	Freeze *freeze `json:"freeze,omitempty"`
	Dump   *Dump   `json:"dump,omitempty"`
	// Precopy is for a tree that runs.
	Precopy *Precopy `json:"precopy,omitempty"`
	Cancel  bool     `json:"cancel,omitempty"`
	// Late says of a Cancel that the time is over.
	Late bool `json:"late,omitempty"`
	Thaw bool `json:"thaw,omitempty"`
	Kill bool `json:"kill,omitempty"`
}

// ready asks for a CRIU that is about to dump. The images' directory comes beside it.
type ready struct {
	Root proc.Identity `json:"root"`
	Dump Dump          `json:"dump"`
}

type freeze struct {
	Root     proc.Identity `json:"root"`
	Deadline time.Time     `json:"deadline"`
}

// Precopy is how CRIU shall dump the memory of a tree that runs.
type Precopy struct {
	Tree proc.Identity `json:"tree"`
	Dump
}

// Dump is how CRIU shall dump. The images' directory comes beside it.
type Dump struct {
	// Program is CRIU's executable.
	Program string      `json:"program"`
	User    runner.User `json:"user"`
	// Root is the pid of the tree's root as CRIU sees it.
	Root int `json:"root"`
	// External are descriptors that lead out of the tree, in CRIU's words.
	External []string `json:"external,omitempty"`
	// ShellJob: the session or the process group of the root is another process's.
	ShellJob bool `json:"shell_job,omitempty"`
	// Connected: both ends of a TCP connection are in the tree.
	Connected bool `json:"connected,omitempty"`
	// Datagrams: datagram sockets are connected to sockets outside, which have names.
	Datagrams bool `json:"datagrams,omitempty"`
	// Aliases are second names that files must have while CRIU looks at them.
	Aliases []hardlink.Alias `json:"aliases,omitempty"`
	// Namespaces are the kinds that CRIU must enter, because the tree has others than this process.
	Namespaces []string `json:"namespaces,omitempty"`
	// Earlier is the directory among the images in which a Precopy is, from which on changes were
	// tracked.
	Earlier  string    `json:"earlier,omitempty"`
	Deadline time.Time `json:"deadline"`
}

// ErrDamaged means that CRIU died while it worked inside of a process, and left it broken. The tree
// has been ended.
var ErrDamaged = errors.New("CRIU died inside of a process; the program was ended, for it could not have gone on")

// kinds are the errors that phosd tells apart.
var kinds = fdpass.Kinds{
	{Name: "damaged", Err: ErrDamaged},
	{Name: "late", Err: context.DeadlineExceeded},
	{Name: "torn", Err: runner.ErrTorn},
	{Name: "restless", Err: freezer.ErrRestless},
	{Name: "gone", Err: proc.ErrGone},
	{Name: "cgroups", Err: cgroup.ErrNone},
}

// groupKind is that of the cgroups of all watchdogs.
const groupKind = "frozen"
