package ckpt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// errFault is the error of an injected fault.
var errFault = errors.New("fault of the test")

// fault is an injected fault. The zero value is none.
type fault struct {
	// call is the label of a call; "freeze 1#2" is the second call of "freeze 1".
	call string
	// how is "error", "hang" (until the context ends) or "busy" (ErrBusy).
	how string
}

// stage fakes the environment of a checkpoint or a restore. It records what is open, only by the
// calls that the code makes.
type stage struct {
	t      testing.TB
	fault  fault
	cancel context.CancelFunc // called once a call hangs

	mu    sync.Mutex // guards the fields below
	count map[string]int
	// calls are all labels in order. Calls with a context are marked by a star.
	calls []string
	// open is what was opened and not closed, in order.
	open []thing
	// closed is what was closed since the fault.
	closed  []thing
	faulted bool
	// ended are the trees that were killed.
	ended []string
}

// thing is a resource that must not outlast a failed checkpoint or restore. Things with a higher
// rank must be closed first.
type thing struct {
	rank int
	name string
}

const (
	ofImage = iota
	ofWork
	ofDevice
	ofGate
	ofFreezer
)

func newStage(t testing.TB, wrong fault) (*stage, context.Context) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &stage{t: t, fault: wrong, cancel: cancel, count: make(map[string]int)}, ctx
}

// uncancelled is the context of calls that cannot be cancelled.
var uncancelled context.Context

// call records a call and injects the fault if it is due. ctx is nil for calls without a context.
func (s *stage) call(ctx context.Context, what string) error {
	s.mu.Lock()
	s.count[what]++
	label := fmt.Sprintf("%s#%d", what, s.count[what])
	hit := s.fault.call == label
	s.faulted = s.faulted || hit
	if ctx != nil {
		label += "*"
	}
	s.calls = append(s.calls, label)
	s.mu.Unlock()
	if !hit {
		return nil
	}
	switch s.fault.how {
	case "hang":
		s.cancel()
		<-ctx.Done()
		return context.Cause(ctx)
	case "busy":
		return fmt.Errorf("%w: %w", ckpt.ErrBusy, errFault)
	}
	return fmt.Errorf("%s: %w", what, errFault)
}

func (s *stage) opened(rank int, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, thing{rank, name})
}

// close closes a thing; it may be closed already.
func (s *stage) close(rank int, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.open, thing{rank, name})
	if at < 0 {
		return
	}
	s.open = slices.Delete(s.open, at, at+1)
	if s.faulted {
		s.closed = append(s.closed, thing{rank, name})
	}
}

func (s *stage) isOpen(rank int, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.open, thing{rank, name})
}

// checkUndone checks that nothing is open, and that things were closed in reverse order since the
// fault.
func (s *stage) checkUndone() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) > 0 {
		s.t.Errorf("left open: %v\nafter %v", s.open, s.calls)
	}
	if !slices.IsSortedFunc(s.closed, func(a, b thing) int { return b.rank - a.rank }) {
		s.t.Errorf("undone in the wrong order: %v", s.closed)
	}
	if len(s.ended) > 0 {
		s.t.Errorf("ended: %v", s.ended)
	}
}

// labels returns all calls that a healthy run makes; with hang set only those with a context.
func (s *stage) labels(hang bool) (labels []string) {
	for _, label := range s.calls {
		plain, waits := strings.CutSuffix(label, "*")
		if waits || !hang {
			labels = append(labels, plain)
		}
	}
	return labels
}

// work is a private directory on a stage.
type work struct {
	*stage
	name string
	dir  *os.File
}

func (s *stage) newWork(_ uint64, _, _ uint32) (ckpt.WorkDir, error) {
	if err := s.call(uncancelled, "work"); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(s.t.TempDir(), "work-")
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s.opened(ofWork, path)
	return &work{s, path, dir}, nil
}

func (w *work) Descriptor() *os.File { return w.dir }

func (w *work) MemoryBytes() uint64 { return 0 }

func (w *work) Remove() error {
	w.close(ofWork, w.name)
	return errors.Join(w.dir.Close(), os.RemoveAll(w.name))
}

// cpu freezes and dumps imaginary trees.
type cpu struct {
	ckpt.CPU
	*stage
	trees map[int]*ckpt.Tree
}

func (c *cpu) Precopy(context.Context, *ckpt.Tree, *os.File, ckpt.Track) (ckpt.Precopied, error) {
	return ckpt.Precopied{}, ckpt.ErrUntracked
}

func (c *cpu) Inspect(ctx context.Context, root proc.Identity) (*ckpt.Tree, error) {
	if err := c.call(ctx, fmt.Sprintf("inspect %d", c.number(root.PID))); err != nil {
		return nil, err
	}
	return c.trees[root.PID], nil
}

// number returns a number that is the same in every run.
func (c *cpu) number(pid int) int {
	if pid == os.Getpid() {
		return 1
	}
	return 2
}

type frozenTree struct {
	*stage
	cpu    *cpu
	root   proc.Identity
	number int
	name   string
}

func (f *frozenTree) Inspect(ctx context.Context) (*ckpt.Tree, error) {
	return f.cpu.Inspect(ctx, f.root)
}

func (c *cpu) Freeze(ctx context.Context, tree *ckpt.Tree) (ckpt.Frozen, error) {
	root := tree.Processes[0].Identity
	f := &frozenTree{stage: c.stage, cpu: c, root: root, number: c.number(root.PID)}
	f.name = fmt.Sprintf("tree %d", f.number)
	if err := c.call(ctx, fmt.Sprintf("freeze %d", f.number)); err != nil {
		return nil, err
	}
	c.opened(ofFreezer, f.name)
	return f, nil
}

func (f *frozenTree) Dump(ctx context.Context, images *os.File) error {
	if !f.isOpen(ofFreezer, f.name) {
		f.t.Errorf("%s: dumped while it is running", f.name)
	}
	if err := f.call(ctx, fmt.Sprintf("dump %d", f.number)); err != nil {
		return err
	}
	fd, err := unix.Openat(int(images.Fd()), "core.img", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "core.img")
	f.mu.Lock()
	try := f.count[fmt.Sprintf("dump %d", f.number)]
	f.mu.Unlock()
	_, err = fmt.Fprintf(file, "tree %d, try %d", f.number, try)
	return errors.Join(err, file.Close())
}

func (f *frozenTree) Thaw() error {
	err := f.call(uncancelled, fmt.Sprintf("thaw %d", f.number))
	if err == nil {
		f.close(ofFreezer, f.name)
	}
	return err
}

func (f *frozenTree) Kill() error {
	err := f.call(uncancelled, fmt.Sprintf("kill %d", f.number))
	if err == nil {
		f.close(ofFreezer, f.name)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended = append(f.ended, f.name)
	}
	return err
}

// gpu is the GPU half of one process on a stage.
type gpu struct {
	*stage
	pid  int
	name string
	pack *os.File
	// options are those of the last Begin.
	options ckpt.GPUOptions
}

func (s *stage) device(number, pid int) *gpu {
	return &gpu{stage: s, pid: pid, name: fmt.Sprintf("gpu %d", number)}
}

func (g *gpu) Process() int { return g.pid }

func (g *gpu) Begin(ctx context.Context, packs []*os.File, options ckpt.GPUOptions) error {
	g.pack, g.options = packs[0], options
	// It must be aborted even if Begin fails.
	g.opened(ofDevice, g.name)
	return g.call(ctx, "begin "+g.name)
}

func (g *gpu) Quiesce(ctx context.Context, how ckpt.Drain) error {
	if g.isOpen(ofGate, g.name) && !how.Yield && !how.Stay {
		g.t.Errorf("%s: quiesced twice", g.name)
	}
	g.close(ofGate, g.name)
	err := g.call(ctx, "quiesce "+g.name)
	if !errors.Is(err, ckpt.ErrBusy) || how.Stay {
		g.opened(ofGate, g.name)
	}
	return err
}

func (g *gpu) Cut(ctx context.Context, _ time.Duration) error {
	if !g.isOpen(ofGate, g.name) {
		g.t.Errorf("%s: cut with an open gate", g.name)
	}
	return g.call(ctx, "cut "+g.name)
}

func (g *gpu) Resume(ctx context.Context) error {
	g.mu.Lock()
	if slices.ContainsFunc(g.open, func(t thing) bool { return t.rank == ofFreezer }) {
		g.t.Errorf("%s: resumed while a tree is frozen", g.name)
	}
	g.mu.Unlock()
	err := g.call(ctx, "resume "+g.name)
	if err == nil {
		g.close(ofGate, g.name)
	}
	return err
}

func (g *gpu) Finish(ctx context.Context) (image.GPUHalf, error) {
	if err := g.call(ctx, "finish "+g.name); err != nil {
		return image.GPUHalf{}, err
	}
	writer := contents.NewWriter(g.pack, nil, contents.WriterOptions{})
	entry, err := writer.PutFile(ctx, "session", strings.NewReader(g.name))
	if err != nil {
		return image.GPUHalf{}, err
	}
	tree, err := writer.PutTree(ctx, &image.Tree{Entries: []image.Entry{entry}})
	return image.GPUHalf{Tree: tree.String()}, errors.Join(err, writer.Close())
}

// Abort opens the gate, like a worker whose stream ends.
func (g *gpu) Abort() {
	g.mu.Lock()
	g.open = slices.DeleteFunc(g.open, func(t thing) bool { return t == thing{ofGate, g.name} })
	g.mu.Unlock()
	g.close(ofDevice, g.name)
}
