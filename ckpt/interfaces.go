package ckpt

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// ErrUntracked is returned when the kernel does not report which pages a process has written. All
// memory must be written during the pause then.
var ErrUntracked = errors.New("the kernel does not track written pages")

// ErrTracked is returned when another checkpoint tracks the writes of a process. Its memory must be
// written during the pause then.
var ErrTracked = errors.New("another checkpoint of it is in progress")

// ParentImages is the directory, inside a dump's directory, with the images of a Precopy. CRIU
// calls them parent images.
const ParentImages = "parent"

// ErrBusy is returned when something in flight must end before the cut. The step may be retried
// until the deadline.
var ErrBusy = errors.New("busy")

// ErrProgramEnded is returned when a process ended while its GPU half was saved. The rest of its
// tree can be checkpointed again.
var ErrProgramEnded = errors.New("the program has ended")

// Tree is a process tree as found before it is stopped.
type Tree struct {
	// Processes begin with the root; parents come before their children.
	Processes []Process
	// Endpoints are the ends that lead out of the tree: terminals, pipes, sockets.
	Endpoints []image.Endpoint
	// Written are the regular files that the tree has open for writing.
	Written []WrittenFile
	// Contained is set if the tree's root directory is not phosd's.
	Contained bool
	// CRIU is the version of CRIU that will write the tree; empty if unknown.
	CRIU string
	// Obstacles are the reasons why the tree cannot be saved. The tree can be saved if all are
	// harmless.
	Obstacles []Obstacle
}

// ResidentBytes returns an upper bound for the memory that CRIU writes.
func (t *Tree) ResidentBytes() (bytes uint64) {
	for _, p := range t.Processes {
		bytes += p.ResidentBytes
	}
	return bytes
}

// Process is one process of a tree.
type Process struct {
	proc.Identity
	Parent   int
	UID, GID uint32
	Command  string
	Threads  int
	// ResidentBytes is an upper bound for the memory that CRIU writes.
	ResidentBytes uint64
	// Inner is the pid in the process's own pid namespace.
	Inner int
	// Direct means that it may have I/O in flight that writes its memory without the kernel's noticing
	// later: direct or asynchronous I/O.
	Direct bool
	// Library is the path of the libphos.so that it has mapped; empty for none.
	Library string
	// Mapped are the paths of the mapped files, with the suffix " (deleted)" if the file had no
	// name.
	Mapped []string
}

// WrittenFile is a file that the tree has open for writing.
type WrittenFile struct {
	Path  string
	Bytes int64
	// Append, Mapped and Lock are as in image.FileCut.
	Append, Mapped bool
	Lock           string
}

// Obstacle is a reason why something cannot be saved or restored.
type Obstacle struct {
	Subject, Reason, Remedy string
	// Harmless obstacles are only reported. Passing ones are expected to end soon.
	Harmless, Passing bool
	// Inode is that of the file that is in the way; 0: none. With another one it is another obstacle.
	Inode uint64
	// Remote is the other end of a TCP connection that could be saved, if that end is saved with it;
	// invalid: it is not about one.
	Remote netip.Addr
}

// CPU is the half of a checkpoint that saves the processes themselves.
type CPU interface {
	// Inspect reads the state of the tree of a root and stops nothing.
	Inspect(ctx context.Context, root proc.Identity) (*Tree, error)
	// Precopy writes the memory of a running tree into the directory ParentImages, which it
	// creates in the dump's private directory. The next Dump into that directory writes just what
	// changed since; later ones do, too, if the result is Kept. The error is ErrUntracked if written
	// pages cannot be tracked, ErrTracked if another one tracks them.
	Precopy(ctx context.Context, tree *Tree, images *os.File, track Track) (Precopied, error)
	// Freeze stops the processes of a tree. If this phosd dies, a watchdog thaws them.
	Freeze(ctx context.Context, tree *Tree) (Frozen, error)
	// Restore restores processes from images that Dump has written. They stay frozen until Keep.
	Restore(ctx context.Context, order RestoreOptions) (Restored, error)
	// Adopt finds a tree that an earlier phosd has restored, by the Control of its options. The
	// error is proc.ErrGone if its restorer has ended.
	Adopt(ctx context.Context, control string) (Restored, error)
	// Sweep releases what is left of freezing and restoring after phosd and its helpers were
	// killed.
	Sweep(ctx context.Context) error
	// Check returns an error that says what CRIU cannot do on this host, or nil.
	Check(ctx context.Context) error
}

// Precopied is the result of a Precopy.
type Precopied struct {
	// Drop ends the tracking; it may be nil. The caller calls it after the tree was thawed or killed,
	// or has removed the images.
	Drop func() error
	// Kept is set if a dump does not reset the tracking: its images are good for further ones.
	Kept bool
}

// Track returns the userfaultfd that tracks the writes of a process. The caller closes it, and
// calls end when it tracks no more. The error is ErrUntracked if there is none.
type Track func(ctx context.Context, process proc.Identity) (userfaultfd *os.File, end func(), err error)

// Warner is a CPU that reports what is missing on this host, for administrators.
type Warner interface {
	Warnings(ctx context.Context) []string
}

// Overlayer is a CPU that need not save pages again that an older generation has.
type Overlayer interface {
	// Overlay leaves such pages out of the images of a Precopy. It returns the files of the older dump
	// over which they lie now, by the names that they must have in the directory of parent images.
	Overlay(ctx context.Context, parent *os.File, older OlderImages) (needed map[string]image.Entry, err error)
}

// OlderImages are the files of a dump of the same tree in an older generation.
type OlderImages struct {
	Reader *contents.Reader
	// Entries are by their names in the directory of that dump.
	Entries map[string]image.Entry
}

// RestoredTracker is a CPU that makes a userfaultfd in each process that it restores.
type RestoredTracker interface {
	// TrackRestored returns the userfaultfd of a process of a restored tree, with which its writes can
	// be tracked. The error is ErrUntracked if there is none. The caller closes it.
	TrackRestored(ctx context.Context, process proc.Identity) (userfaultfd *os.File, err error)
	// ForgetTracked gives up the userfaultfd of a process that is going to have another: a page has
	// room for one. Whatever it has protected counts as written.
	ForgetTracked(ctx context.Context, process proc.Identity) error
}

// WriteTracker is a CPU that can use what a Track finds.
type WriteTracker interface {
	TracksWrites() bool
}

// Prestarter is a CPU that can do part of its work before the pause, while the programs run.
type Prestarter interface {
	// Prestart makes the next Freeze of a tree and its Dump into this directory quicker. The caller
	// calls drop after the tree was thawed or killed. If Prestart fails, Freeze and Dump only take
	// longer.
	Prestart(ctx context.Context, tree *Tree, images *os.File) (drop func() error, err error)
}

// LazyLoader is a CPU that can restore the memory of processes while they run.
type LazyLoader interface {
	// CanLoad reports whether it can on this host, for processes of a user.
	CanLoad(ctx context.Context, uid uint32) bool
	// Composes reports whether Load writes a file of Dump, and not the caller.
	Composes(name string) bool
	// Plan says how the memory of a tree of an image comes back.
	Plan(reader *contents.Reader, tree string, root int) (MemoryPlan, error)
	// Load completes the images of a tree for a Restore with this Memory.
	Load(ctx context.Context, order LoadOptions) (Memory, error)
	// AwaitRestore blocks until the tree to which a process belongs runs, if it is being restored.
	AwaitRestore(ctx context.Context, process proc.Identity) error
	// Settle blocks until the restored tree to which a process belongs, if there is one, runs and
	// has all its memory: nothing may be saved of it before.
	Settle(ctx context.Context, process proc.Identity) error
}

// MemoryPlan says how memory comes back.
type MemoryPlan struct {
	// LazyBytes come while the processes run. Early are those that come before, by the reason, as in
	// "1 GiB that is locked".
	LazyBytes uint64
	Early     map[string]uint64
}

// ErrMemoryLost is returned when memory of a restored tree cannot be brought back: the tree was
// killed.
var ErrMemoryLost = errors.New("the restored program was killed")

// LoadOptions say which memory to restore.
type LoadOptions struct {
	// Image is the image's name, for messages.
	Image string
	// Tree is the hash of the list of all files of Dump; Root is the root of the tree.
	Tree string
	Root int
	// Images is the private directory with all other files.
	Images *os.File
	Packs  []*os.File
	// Eager is as in the RestoreOptions.
	Eager bool
}

// Memory is memory of a tree that comes while it runs.
type Memory interface {
	// Bytes is how much it is.
	Bytes() uint64
	// Close gives it up, unless a Restore has taken it.
	Close() error
}

// Frozen is a frozen tree.
type Frozen interface {
	// Inspect is CPU.Inspect of the frozen tree. The tree may have changed before it was frozen: it
	// may have new children or other open files.
	Inspect(ctx context.Context) (*Tree, error)
	// Dump writes the processes' images into a private directory; they stay frozen. It saves what
	// Inspect has found, and inspects the tree itself only if Inspect was not called.
	Dump(ctx context.Context, images *os.File) error
	// Thaw resumes the processes.
	Thaw() error
	// Kill ends all processes without letting them run again.
	Kill() error
}

// RestoreOptions is what a CPU needs to restore a tree.
type RestoreOptions struct {
	// Images is the private directory with the verified files of Dump.
	Images *os.File
	// UID, GID and Groups are those of the owner; CRIU runs with them.
	UID, GID uint32
	Groups   []uint32
	// Root is the pid that the root of the tree had. With NewPids the tree gets its own pid
	// namespace, in which it has this pid again.
	Root    int
	NewPids bool
	// Remap names files that replace paths which the processes had mapped or open: session files,
	// libphos.so.
	Remap map[string]*os.File
	// Endpoints are files that replace the ends that led out of the tree, by Endpoint.ID. A missing
	// one becomes /dev/null or an end of file.
	Endpoints map[uint32]*os.File
	Described []image.Endpoint
	// Files are restored, with the user's rights, before the processes open them.
	Files []FileContent
	// Written are the paths of all files that any tree of the image had open for writing: their sizes
	// may be other ones than they were.
	Written []string
	// Memory is what comes later; nil if Images have everything. With Eager it comes before Restore
	// returns.
	Memory Memory
	Eager  bool
	// Control is the path at which a later phosd finds the tree's restorer. It must not exist, in a
	// directory that only root may enter.
	Control string
	// Cgroup is the directory of the tree's cgroup (version 2); empty means that of this phosd.
	Cgroup string
	// Log gets what the tree writes to an end without an entry in Endpoints; nil discards it.
	Log *os.File
	// Detach is set if no caller waits for the tree.
	Detach bool
	// Notice, if not nil, gets messages for the user.
	Notice func(text string)
	// Place is a process whose namespaces (perhaps of a container) the tree joins. If unset, the
	// tree runs in phosd's namespaces. PlaceRoot is its root directory.
	Place     proc.Identity
	PlaceRoot *rootdir.Root
	// Network is a process whose network namespace the tree joins, if Place is unset.
	Network proc.Identity
}

// FileContent is a file that the tree had open for writing, as it was at the cut.
type FileContent struct {
	Path  string
	Bytes int64
	Mode  uint32
	// Content is nil for a file that was too large to be saved. The file must have at least Bytes
	// bytes then, and is truncated to them.
	Content io.Reader
	// Keep leaves the file as it is. If it is missing, an empty file is created. A file that is not
	// restored, because of Keep or because a tree of the same image is writing it, is extended to
	// MinBytes.
	Keep     bool
	MinBytes int64
	// CopyTo, if not empty, is a path to which the file's bytes from CopyFrom on are copied before
	// the file is restored.
	CopyTo   string
	CopyFrom int64
	// Seen is the file that was decided about. If it is another one when it is to be written, the
	// error is savedfile.ErrChanged, and no file was written. With nil it may be any file.
	Seen *savedfile.Seen
}

// Restored is a restored tree.
type Restored interface {
	// Processes returns the processes of the tree, as seen from phosd, by their pids in the image.
	Processes() map[int]proc.Identity
	// Includes reports whether a process is of the tree, or was started by it.
	Includes(process proc.Identity) bool
	// Keep lets the tree run and outlive this phosd. Until then it is frozen and ends with phosd:
	// an incomplete restore leaves no process behind.
	Keep() error
	// Kill ends all processes.
	Kill() error
	// Signal sends a signal to the root.
	Signal(signal int) error
	// Loaded blocks until all memory is there.
	Loaded(ctx context.Context) error
	// Wait blocks until the root has ended and returns its exit status, as of waitpid.
	Wait(ctx context.Context) (status int, err error)
}

// GPU is the GPU half of one process: its worker. After Resume it may be quiesced and cut again,
// if another device was busy. The last cut counts.
type GPU interface {
	// Process is the pid of the program, as in Tree.
	Process() int
	// Begin copies while the program runs. It writes packs[0] and reads the others.
	Begin(ctx context.Context, packs []*os.File, options GPUOptions) error
	// Quiesce closes the gate and waits until all calls are done. If the deadline passes it returns
	// ErrBusy, and has opened the gate unless that was to stay closed.
	Quiesce(ctx context.Context, how Drain) error
	// Cut saves what is dirty. It returns ErrBusy if a call is in flight that needs its program.
	Cut(ctx context.Context, deadline time.Duration) error
	// Resume opens the gate.
	Resume(ctx context.Context) error
	// Finish writes what is left and returns the tree of the GPU half.
	Finish(ctx context.Context) (image.GPUHalf, error)
	// Abort undoes everything. It may be called at any time, and more than once.
	Abort()
}

// Drain says how a GPU is quiesced.
type Drain struct {
	Deadline time.Duration
	// Yield lets some calls through first: work of another program may wait for them.
	Yield bool
	// Stay leaves the gate closed when the deadline passes: other programs yield.
	Stay bool
}

// GPUOptions say how a GPU saves.
type GPUOptions struct {
	BudgetBytes uint64
	// BandwidthBytes limits the bytes per second that all writers of a checkpoint write together. The
	// pause is not held up: what is written then only counts.
	BandwidthBytes uint64
	// Limit is the limit that the writers share; nil if there is none. Checkpoint sets it.
	Limit        *contents.Limit
	Compress     bool
	Kinds        []string
	StopTheWorld bool
	// Progress is called from time to time.
	Progress func(Step)
}

// Step is the progress of a phase.
type Step struct {
	Phase                 string
	DoneBytes, TotalBytes uint64
}
