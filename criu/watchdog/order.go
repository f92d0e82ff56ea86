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

// orderFD is the watchdog's connection to phosd.
const orderFD = 3

// order is a request of phosd. Only one field is set. Some JSON names are older than the names of
// the fields, and stay: they are in use between processes.
type order struct {
	Prestart *prestart `json:"ready,omitempty"`
	Freeze   *freeze   `json:"freeze,omitempty"`
	Dump     *Dump     `json:"dump,omitempty"`
	// Precopy is for a running tree.
	Precopy *Precopy `json:"precopy,omitempty"`
	Cancel  bool     `json:"cancel,omitempty"`
	// Late is set in a Cancel if the deadline is over.
	Late bool `json:"late,omitempty"`
	Thaw bool `json:"thaw,omitempty"`
	Kill bool `json:"kill,omitempty"`
}

// prestart asks for a CRIU that waits before its dump. The images' directory is sent with it.
type prestart struct {
	Root proc.Identity `json:"root"`
	Dump Dump          `json:"dump"`
}

type freeze struct {
	Root     proc.Identity `json:"root"`
	Deadline time.Time     `json:"deadline"`
}

// Precopy says how CRIU dumps the memory of a running tree.
type Precopy struct {
	Tree proc.Identity `json:"tree"`
	Dump
}

// Dump says how CRIU dumps a tree. The images' directory is sent with it.
type Dump struct {
	// Program is CRIU's executable.
	Program string      `json:"program"`
	User    runner.User `json:"user"`
	// Root is the pid of the tree's root as CRIU sees it.
	Root int `json:"root"`
	// External are CRIU's names of descriptors that lead out of the tree.
	External []string `json:"external,omitempty"`
	// ShellJob is set if the root's session or process group is another process's.
	ShellJob bool `json:"shell_job,omitempty"`
	// Connected is set if both ends of a TCP connection are in the tree.
	Connected bool `json:"connected,omitempty"`
	// Datagrams is set if datagram sockets are connected to named sockets outside.
	Datagrams bool `json:"datagrams,omitempty"`
	// Links are removed names of files that CRIU needs during the dump.
	Links []hardlink.Link `json:"aliases,omitempty"`
	// Namespaces are the kinds that CRIU must enter, because they differ from the watchdog's.
	Namespaces []string `json:"namespaces,omitempty"`
	// Earlier is the directory, among the images, of a Precopy since which writes were tracked.
	Earlier string `json:"earlier,omitempty"`
	// Tracked means that phos has written these images, and tracks writes itself.
	Tracked  bool      `json:"tracked,omitempty"`
	Deadline time.Time `json:"deadline"`
}

// ErrDamaged is returned when CRIU died inside a process and left it broken. The tree has been
// killed.
var ErrDamaged = errors.New("CRIU died inside a process; the program was ended, because it could not have continued")

// kinds are the errors that phosd distinguishes.
var kinds = fdpass.Kinds{
	{Name: "damaged", Err: ErrDamaged},
	{Name: "late", Err: context.DeadlineExceeded},
	{Name: "torn", Err: runner.ErrAborted},
	{Name: "not-frozen", Err: freezer.ErrNotFrozen},
	{Name: "gone", Err: proc.ErrGone},
	{Name: "cgroups", Err: cgroup.ErrNone},
}

// groupKind is the kind of the cgroups of all watchdogs.
const groupKind = "frozen"
