package ckpt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Ranks of what a restore opens.
const (
	ofSource = iota
	ofUnpacked
	ofWorker
	ofTree
)

// comeback is a restore of an image with two trees, on a stage.
type comeback struct {
	*stage
	ctx     context.Context
	dir     string
	prepare ckpt.PrepareOptions
	restore ckpt.CommitOptions
}

func newComeback(t testing.TB, dir string, wrong fault) *comeback {
	t.Helper()
	c := &comeback{dir: dir}
	c.stage, c.ctx = newStage(t, wrong)
	opened := openImage(t, dir)
	reader, closePacks, err := opened.Reader()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := opened.Inspect(0)
	if err != nil {
		t.Fatal(err)
	}
	c.opened(ofSource, "source")
	source := ckpt.Source{Manifest: manifest, Reader: reader, Release: sync.OnceFunc(func() {
		closePacks()
		c.close(ofSource, "source")
	})}
	c.prepare = ckpt.PrepareOptions{
		Source: source, CPU: &returner{stage: c.stage}, Work: c.newWork, Deadline: 10 * time.Second,
		Worker: c.worker,
	}
	c.restore = ckpt.CommitOptions{
		Control: func() string { return "" },
		Hold:    func(ctx context.Context) error { return c.call(ctx, "hold") },
	}
	return c
}

// run runs the whole restore.
func (c *comeback) run() (*ckpt.RestoreResult, error) {
	prepared, err := ckpt.Prepare(c.ctx, c.prepare)
	if err != nil {
		return nil, err
	}
	return prepared.Commit(c.ctx, c.restore)
}

func numberOf(pid int) int {
	if pid == os.Getpid() {
		return 1
	}
	return 2
}

// worker starts the restore of a GPU half.
func (c *comeback) worker(
	ctx context.Context,
	half *image.GPUHalf,
	source ckpt.Source,
	_ bool,
) (ckpt.GPURestore, error) {
	w := &worker{stage: c.stage}
	for _, p := range source.Manifest.Processes {
		if p.GPU == half {
			w.pid = p.PID
		}
	}
	w.name = fmt.Sprintf("worker %d", numberOf(w.pid))
	if err := c.call(ctx, "start "+w.name); err != nil {
		return nil, err
	}
	c.opened(ofWorker, w.name)
	return w, nil
}

// worker is the restore of a GPU half.
type worker struct {
	*stage
	pid  int
	name string
}

func (w *worker) Files() map[string]*os.File { return nil }

func (w *worker) Ready(ctx context.Context, _ func(ckpt.Step)) error {
	return w.call(ctx, "ready "+w.name)
}

func (w *worker) Attach(ctx context.Context, program proc.Identity) error {
	if program.PID != w.pid || !w.isOpen(ofTree, fmt.Sprintf("tree %d", numberOf(w.pid))) {
		w.t.Errorf("%s: attached to pid %d", w.name, program.PID)
	}
	return w.call(ctx, "attach "+w.name)
}

func (w *worker) Loaded(ctx context.Context) (uint64, error) {
	return 100, w.call(ctx, "loaded "+w.name)
}

func (w *worker) Abort() { w.close(ofWorker, w.name) }

// returner is a CPU that restores imaginary processes.
type returner struct {
	ckpt.CPU
	*stage
	// written are the paths of files that each tree may find with another size.
	written [][]string
	// onFiles, if not nil, is called with the files of each try.
	onFiles func(files []ckpt.FileContent) error
}

func (r *returner) Restore(ctx context.Context, order ckpt.RestoreOptions) (ckpt.Restored, error) {
	r.written = append(r.written, order.Written)
	if r.onFiles != nil && order.Files != nil {
		if err := r.onFiles(order.Files); err != nil {
			return nil, err
		}
	}
	tree := &returned{stage: r.stage, root: order.Root, name: fmt.Sprintf("tree %d", numberOf(order.Root))}
	text, err := os.ReadFile(order.Images.Name() + "/core.img")
	if want := fmt.Sprintf("%s, try 1", tree.name); err != nil || string(text) != want {
		r.t.Errorf("unpacked %q, want %q: %v", text, want, err)
	}
	if err := r.call(ctx, "restore "+tree.name); err != nil {
		return nil, err
	}
	r.opened(ofTree, tree.name)
	return tree, nil
}

type returned struct {
	ckpt.Restored
	*stage
	root int
	name string
}

func (r *returned) Processes() map[int]proc.Identity {
	return map[int]proc.Identity{r.root: {PID: r.root}}
}

func (r *returned) Keep() error { return r.call(uncancelled, "keep "+r.name) }

func (r *returned) Loaded(context.Context) error { return nil }

func (r *returned) Kill() error {
	r.close(ofTree, r.name)
	return nil
}

// TestWrittenByAnotherTree: a file that one tree had open for writing, and that is kept, may have
// another size for every tree.
func TestWrittenByAnotherTree(t *testing.T) {
	dir := savedOnce(t)
	c := newComeback(t, dir, fault{})
	log := filepath.Join(t.TempDir(), "log")
	c.prepare.Source.Manifest.Files = []image.SavedFile{{Path: log}}
	cpu := &returner{stage: c.stage}
	c.prepare.CPU = cpu
	if _, err := c.run(); err != nil {
		t.Fatal(err)
	}
	if want := []string{log}; len(cpu.written) != 2 || !slices.Equal(cpu.written[0], want) ||
		!slices.Equal(cpu.written[1], want) {
		t.Errorf("got %q, want %q for each of two trees", cpu.written, want)
	}
}

// TestDecidesAgain: if a file changes after the decision, the restore decides again, by content. It
// gives up if that happens again and again.
func TestDecidesAgain(t *testing.T) {
	for changes, wrong := range []error{nil, nil, nil, savedfile.ErrChanged} {
		c := newComeback(t, savedOnce(t), fault{})
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		hash := image.Sum([]byte("old")).String()
		c.prepare.Source.Manifest.Files = []image.SavedFile{{Path: path, Bytes: 3, Hash: hash, Cut: &image.FileCut{}}}
		var notices []string
		c.restore.Notice = func(text string) { notices = append(notices, text) }
		cpu := &returner{stage: c.stage}
		tries := 0
		cpu.onFiles = func(files []ckpt.FileContent) error {
			if tries++; files[0].CopyTo == "" || files[0].Seen == nil || files[0].Seen.Inode == 0 {
				t.Errorf("try %d: got %+v, want a copy of the file that was seen", tries, files[0])
			}
			if tries <= changes {
				return fmt.Errorf("restore it: %w", savedfile.ErrChanged)
			}
			return nil
		}
		c.prepare.CPU = cpu
		if _, err := c.run(); !errors.Is(err, wrong) {
			t.Errorf("%d changes: got error %v, want %v", changes, err, wrong)
		}
		if want := min(changes+1, 3); tries != want || len(notices) != 1 {
			t.Errorf("%d changes: got %d tries and notices %q, want %d tries and one notice", changes, tries, notices, want)
		}
	}
}

// kinds are the restores with different orders of steps.
var kinds = map[string]func(*comeback){
	"held":  func(*comeback) {},
	"late":  func(c *comeback) { c.restore.HoldRestored = true },
	"lazy":  func(c *comeback) { c.restore.Hold = nil },
	"eager": func(c *comeback) { c.restore.Hold, c.prepare.Eager = nil, true },
}

// healthyRestore runs a restore without faults.
func healthyRestore(t *testing.T, dir, kind string) *comeback {
	t.Helper()
	c := newComeback(t, dir, fault{})
	kinds[kind](c)
	restored, err := c.run()
	if err != nil {
		t.Fatal(err)
	}
	if stepsOf(restored.Took) != stepsOf(setOf(ckpt.RestoreSteps())) {
		t.Errorf("got steps %s, want %v", stepsOf(restored.Took), ckpt.RestoreSteps())
	}
	if bytes, err := restored.Loaded(c.ctx); err != nil || bytes != 200 {
		t.Errorf("loaded %d bytes: %v", bytes, err)
	}
	for _, each := range c.open {
		if each.rank < ofWorker {
			t.Errorf("left open: %v", each)
		}
	}
	if len(c.open) != 4 {
		t.Errorf("open workers and trees: %v", c.open)
	}
	return c
}

// Each call of a healthy restore in turn fails, or hangs until the caller cancels.
func TestRestoreUndo(t *testing.T) {
	dir := savedOnce(t)
	before := filesIn(t, dir)
	for kind, change := range kinds {
		for _, how := range []string{"error", "hang"} {
			for _, call := range healthyRestore(t, dir, kind).labels(how == "hang") {
				if strings.HasPrefix(call, "loaded") {
					continue // the programs are running
				}
				t.Run(kind+"/"+how+"/"+call, func(t *testing.T) {
					c := newComeback(t, dir, fault{call, how})
					change(c)
					_, err := c.run()
					if want := map[string]error{"error": errFault, "hang": context.Canceled}[how]; !errors.Is(
						err,
						want,
					) {
						t.Errorf("got error %v, want %v", err, want)
					}
					c.checkUndone()
					sameContents(t, before, filesIn(t, dir))
					healthyRestore(t, dir, kind)
				})
			}
		}
	}
}

// Each step in turn fails by a failpoint, or is cancelled.
func TestRestoreFailpoints(t *testing.T) {
	dir := savedOnce(t)
	for kind, change := range kinds {
		for _, step := range ckpt.RestoreSteps() {
			for how, action := range map[string]string{"error": "error", "cancel": "until:/never"} {
				t.Run(kind+"/"+step+"/"+how, func(t *testing.T) {
					c := newComeback(t, dir, fault{})
					change(c)
					points, err := ckpt.ParseFailpoints(step + "=" + action)
					if err != nil {
						t.Fatal(err)
					}
					c.prepare.Fail, c.prepare.Log = points, c.watch(step, how == "cancel")
					_, err = c.run()
					if want := map[string]error{"error": ckpt.ErrFailpoint, "cancel": context.Canceled}[how]; !errors.Is(
						err,
						want,
					) {
						t.Errorf("got error %v, want %v", err, want)
					}
					c.checkUndone()
					healthyRestore(t, dir, kind)
				})
			}
		}
	}
}

// A Prepared that is dropped leaves nothing behind.
func TestDrop(t *testing.T) {
	c := newComeback(t, savedOnce(t), fault{})
	prepared, err := ckpt.Prepare(c.ctx, c.prepare)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.open) == 0 {
		t.Error("nothing is open")
	}
	c.faulted = true
	prepared.Close()
	c.checkUndone()
}

// Manifests that no checkpoint writes are rejected before anything is created.
func TestPrepareRejectsManifest(t *testing.T) {
	dir := savedOnce(t)
	for _, test := range []struct {
		name  string
		spoil func(*image.Manifest)
		want  error
	}{
		{"partial", func(m *image.Manifest) { m.Kinds = []string{"cuda_memory"} }, ckpt.ErrPartial},
		{"no processes' files", func(m *image.Manifest) { m.CPU.Tree = "" }, ckpt.ErrPartial},
		{"no process", func(m *image.Manifest) { m.Processes = nil }, image.ErrMalformed},
		{"a circle", func(m *image.Manifest) {
			m.Processes[0].Parent, m.Processes[1].Parent = m.Processes[1].PID, m.Processes[0].PID
		}, image.ErrMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newComeback(t, dir, fault{})
			test.spoil(c.prepare.Source.Manifest)
			if _, err := c.run(); !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %v", err, test.want)
			}
			if len(c.calls) > 0 {
				t.Errorf("unexpected calls %v", c.calls)
			}
			c.checkUndone()
		})
	}
}
