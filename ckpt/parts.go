package ckpt

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrUntracked means that the kernel does not tell which pages a process has written, so that its
// memory has to be written as a whole while it stands still.
var ErrUntracked = errors.New("the kernel does not track written pages")

// EarlierImages is the directory, below the images of a dump, with those that a Precopy has
// written.
const EarlierImages = "parent"

// ErrBusy means that something is going on that must end before the cut. The step may be tried
// again until the deadline.
var ErrBusy = errors.New("busy")

// ErrEnded means that a process ended while its GPU half was saved. What is left of its tree may be
// saved anew.
var ErrEnded = errors.New("the program has ended")

// Tree is a process tree as it is found before anything is stopped.
type Tree struct {
	// Processes begin with the root; parents come before their children.
	Processes []Process
	// Endpoints are the ends of things that lead out of the tree: terminals, pipes, sockets.
	Endpoints []image.Endpoint
	// Written are regular files that the tree has open for writing.
	Written []WrittenFile
	// Contained: its root directory is another one than phosd's.
	Contained bool
	// CRIU is the version of the one that will write it; empty when it does not say.
	CRIU string
	// Obstacles are all that stands against saving the tree; empty, or only harmless ones, when it can
	// be saved.
	Obstacles []Obstacle
}

// Process is one of a tree.
type Process struct {
	proc.Identity
	Parent   int
	UID, GID uint32
	Command  string
	Threads  int
	// ResidentBytes is what CRIU may have to write of it.
	ResidentBytes uint64
	// Inner is the pid that it has for itself: another one in a container.
	Inner int
	// Library is the path of the libphos.so that it has mapped; empty for none.
	Library string
	// Mapped are the paths of the files that it had mapped when it was looked at, each with "
	// (deleted)" behind it if it had no name any more.
	Mapped []string
}

// WrittenFile is a file that a restore must bring back to what it was.
type WrittenFile struct {
	Path  string
	Bytes int64
}

// Obstacle is why something cannot be saved or restored.
type Obstacle struct {
	Subject, Reason, Remedy string
	// Harmless ones are only worth knowing, Passing ones go away by themselves, and soon.
	Harmless, Passing bool
}

// CPU is the half of a checkpoint that is the processes themselves.
type CPU interface {
	// Inspect looks at the tree of a root, and stops nothing.
	Inspect(ctx context.Context, root proc.Identity) (*Tree, error)
	// Precopy writes the memory of a running tree into the directory EarlierImages, which it makes in
	// the private directory of the dump that comes. The next Dump into it then writes only what
	// changed; only that one, for it tracks anew. ErrUntracked where the kernel cannot tell what
	// changed.
	Precopy(ctx context.Context, tree *Tree, images *os.File) error
	// Freeze stops the processes of a tree where they are. Should this phosd die, a watchdog lets them
	// go.
	Freeze(ctx context.Context, tree *Tree) (Frozen, error)
	// Restore brings processes back from images that Dump has written. They stand still until Keep.
	Restore(ctx context.Context, order RestoreOrder) (Restored, error)
	// Adopt finds a tree again that an earlier phosd has restored, by the Control of its order;
	// process.ErrGone when nobody keeps it any more.
	Adopt(ctx context.Context, control string) (Restored, error)
	// Sweep takes back what is left of freezing and restoring by a phosd that was killed together with
	// its helpers.
	Sweep(ctx context.Context) error
	// Check says what CRIU here cannot do; nil: it works.
	Check(ctx context.Context) error
}

// Preparer is a CPU that does beforehand, while the programs run, what needs none of their time.
type Preparer interface {
	// Prepare makes the next Freeze of a tree, and its Dump into this directory, quick. Drop takes
	// back what is left of it once nothing is frozen any more. When it fails, Freeze and Dump only
	// take longer.
	Prepare(ctx context.Context, tree *Tree, images *os.File) (drop func() error, err error)
}

// Frozen is a tree that stands still.
type Frozen interface {
	// Dump writes the processes' images into a private directory. They stay frozen. The tree may have
	// changed between Inspect and Freeze (new children, other open files): Dump goes by what it finds
	// now. Inspect works on a frozen tree too.
	Dump(ctx context.Context, images *os.File) error
	// Thaw lets them go on, as if nothing had been.
	Thaw() error
	// Kill ends them all where they are, without their running once more.
	Kill() error
}

// RestoreOrder is what a CPU needs to bring a tree back.
type RestoreOrder struct {
	// Images is the private directory with what Dump wrote, verified.
	Images *os.File
	// UID, GID and Groups are the user's whose processes they are; CRIU runs as this user.
	UID, GID uint32
	Groups   []uint32
	// Root is the pid that the root of the tree had; NewPids gives it a pid namespace of its own, in
	// which it has that again.
	Root    int
	NewPids bool
	// Remap names files that take the place of paths that the processes had mapped or open: session
	// files, libphos.so.
	Remap map[string]*os.File
	// Endpoints are what takes the place of the things that led out of the tree, by Endpoint.ID. One
	// that is missing becomes /dev/null or an end of file.
	Endpoints map[uint32]*os.File
	Described []image.Endpoint
	// Files are brought back, with the user's rights, before the processes open them.
	Files []FileContent
	// Control is where the tree's keeper shall be found by a later phosd: a path in a directory that
	// only root may enter, at which nothing is.
	Control string
	// Cgroup is the directory of the cgroup (version 2) in which the tree shall be; empty: that of
	// this phosd.
	Cgroup string
	// Log gets what the tree writes to a terminal, pipe or socket that has no Endpoints; nil: nobody.
	Log *os.File
	// Detach: nobody waits for the tree.
	Detach bool
	// Notice, if not nil, is told what is worth knowing.
	Notice func(text string)
	// Place is a process in whose namespaces the tree shall be, which may be those of a container;
	// none: where phosd is.
	Place proc.Identity
}

// FileContent is a file that the tree had open for writing, as it was at the cut.
type FileContent struct {
	Path  string
	Bytes int64
	Mode  uint32
	// Content is nil for a file that was too large to be saved: what lies beyond Bytes is cut off
	// then, and it must not be shorter.
	Content io.Reader
}

// Restored is a tree that has come back.
type Restored interface {
	// Processes are those of the tree as seen from here, by the pid that each has in the image.
	Processes() map[int]proc.Identity
	// Keep lets the tree run, and outlive this phosd. Before, it stands still as it was at the cut,
	// and ends with phosd: a restore that is not complete leaves no process and no trace of one.
	Keep() error
	// Kill ends them all.
	Kill() error
	// Signal sends one to the root.
	Signal(signal int) error
	// Wait returns the root's exit status, as of waitpid, once it has ended.
	Wait(ctx context.Context) (status int, err error)
}

// Device is the GPU half of one process: its worker. After a Resume it may be quiesced and cut
// again, when another one was busy: the last cut counts.
type Device interface {
	// Process is the pid of the program, as Tree has it.
	Process() int
	// Begin copies while the program runs. packs[0] is written, the others are read.
	Begin(ctx context.Context, packs []*os.File, options DeviceOptions) error
	// Quiesce closes the gate and waits until all that was called is done; ErrBusy when the deadline
	// passes, the gate is open then.
	Quiesce(ctx context.Context, deadline time.Duration) error
	// Cut saves what changed; ErrBusy when a call came in between and needs its program.
	Cut(ctx context.Context, deadline time.Duration) error
	// Resume opens the gate.
	Resume(ctx context.Context) error
	// Finish writes what is left and names the tree of the GPU half.
	Finish(ctx context.Context) (image.GPUHalf, error)
	// Abort takes everything back. It may be called at any time, and more than once.
	Abort()
}

// DeviceOptions are how a Device saves.
type DeviceOptions struct {
	BudgetBytes    uint64
	BandwidthBytes uint64
	Compress       bool
	Kinds          []string
	StopTheWorld   bool
	// Progress is called now and then.
	Progress func(Step)
}

// Step is how far something is.
type Step struct {
	Phase                 string
	DoneBytes, TotalBytes uint64
}
