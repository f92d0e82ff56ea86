package ckpt_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// play is a checkpoint of two trees on a stage, into a real image directory.
type play struct {
	*stage
	ctx   context.Context
	dir   string
	order ckpt.CheckpointOptions
}

func newPlay(t testing.TB, dir string, wrong fault) *play {
	t.Helper()
	p := &play{dir: dir}
	p.stage, p.ctx = newStage(t, wrong)
	c := &cpu{stage: p.stage, trees: make(map[int]*ckpt.Tree)}
	var devices []ckpt.GPU
	var roots []proc.Identity
	for i, pid := range []int{os.Getpid(), os.Getppid()} {
		id, err := proc.Of(pid)
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, id)
		c.trees[pid] = &ckpt.Tree{
			Processes: []ckpt.Process{{Identity: id, UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}},
		}
		devices = append(devices, p.device(i+1, pid))
	}
	opened := openImage(t, dir)
	p.order = ckpt.CheckpointOptions{
		Roots: roots, CPU: c, Work: p.newWork, Deadline: 10 * time.Second,
		Devices: func([]*ckpt.Tree) ([]ckpt.GPU, error) { return devices, p.call(uncancelled, "devices") },
		Image: ckpt.Target{Dir: opened, Seal: func(m *image.Manifest) ([]byte, error) {
			if err := p.call(uncancelled, "seal"); err != nil {
				return nil, err
			}
			return image.SealManifest(m, image.GenerateKey())
		}},
		Hold: func(ctx context.Context) error { return p.call(ctx, "hold") },
	}
	return p
}

func openImage(t testing.TB, path string) *store.Dir {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	opened, err := store.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

// filesIn returns the content of all files below a directory.
func filesIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func sameContents(t testing.TB, before, after map[string]string) {
	t.Helper()
	for path := range after {
		if _, had := before[path]; !had {
			t.Errorf("unexpected file %s", path)
		}
	}
	for path, text := range before {
		if now, has := after[path]; !has || now != text {
			t.Errorf("%s changed (exists: %v)", path, has)
		}
	}
}

// savedOnce returns a directory with one generation.
func savedOnce(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	p := newPlay(t, dir, fault{})
	if _, err := ckpt.Checkpoint(p.ctx, p.order); err != nil {
		t.Fatal(err)
	}
	p.checkUndone()
	return dir
}

// TestFileOfTwoTrees: the image says how both trees of a checkpoint use a file.
func TestFileOfTwoTrees(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newPlay(t, t.TempDir(), fault{})
	p.order.FileBytes = 1 << 20
	trees := p.order.CPU.(*cpu).trees
	trees[os.Getpid()].Written = []ckpt.WrittenFile{{Path: path, Bytes: 7, Append: true, Lock: "read"}}
	trees[os.Getppid()].Written = []ckpt.WrittenFile{{Path: path, Bytes: 7, Mapped: true, Lock: "write"}}
	saved, err := ckpt.Checkpoint(p.ctx, p.order)
	if err != nil {
		t.Fatal(err)
	}
	if len(saved.Manifest.Files) != 1 {
		t.Fatalf("got files %+v, want one", saved.Manifest.Files)
	}
	if cut := saved.Manifest.Files[0].Cut; cut.Append || !cut.Mapped || cut.Lock != "write" {
		t.Errorf("got %+v, want what the second tree does as well", cut)
	}
}

// checkFailed checks that a failed checkpoint changed nothing and that the next one works.
func (p *play) checkFailed(before map[string]string) {
	p.t.Helper()
	p.checkUndone()
	sameContents(p.t, before, filesIn(p.t, p.dir))
	again := newPlay(p.t, p.dir, fault{})
	saved, err := ckpt.Checkpoint(again.ctx, again.order)
	if err != nil {
		p.t.Fatalf("next checkpoint: %v", err)
	}
	if saved.Manifest.Generation != 2 {
		p.t.Errorf("the next checkpoint is generation %d", saved.Manifest.Generation)
	}
	again.checkUndone()
}

// healthy runs a checkpoint without faults.
func healthy(t *testing.T, stop bool) *play {
	t.Helper()
	p := newPlay(t, t.TempDir(), fault{})
	p.order.Stop = stop
	p.order.Publish = func(ctx context.Context, _ uint64, _ *contents.Limit) error { return p.call(ctx, "publish") }
	var last ckpt.Step
	p.order.Options.Progress = func(now ckpt.Step) { last = now }
	saved, err := ckpt.Checkpoint(p.ctx, p.order)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.open) > 0 {
		t.Errorf("left open: %v", p.open)
	}
	if last.Phase != "write" || last.DoneBytes == 0 || last.DoneBytes != last.TotalBytes {
		t.Errorf("the last progress was %+v", last)
	}
	if want := 2; stop && len(p.ended) != want {
		t.Errorf("ended: %v", p.ended)
	}
	if names := ckpt.CheckpointSteps(); stepsOf(saved.Took) != stepsOf(setOf(names)) {
		t.Errorf("got steps %s, want %v", stepsOf(saved.Took), names)
	}
	return p
}

func setOf(names []string) map[string]time.Duration {
	set := make(map[string]time.Duration)
	for _, name := range names {
		set[name] = 0
	}
	return set
}

func stepsOf(took map[string]time.Duration) string {
	var names []string
	for name := range took {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Each call of a healthy checkpoint in turn fails, hangs until the caller cancels, or is busy once.
func TestCheckpointUndo(t *testing.T) {
	for _, stop := range []bool{false, true} {
		for _, how := range []string{"error", "hang"} {
			for _, call := range healthy(t, stop).labels(how == "hang") {
				if strings.HasPrefix(call, "kill") || strings.HasPrefix(call, "publish") {
					continue // the image is already complete: TestEndFails, TestPublishFails
				}
				t.Run(fmt.Sprintf("stop=%v/%s/%s", stop, how, call), func(t *testing.T) {
					p := newPlay(t, savedOnce(t), fault{call, how})
					p.order.Stop = stop
					before := filesIn(t, p.dir)
					_, err := ckpt.Checkpoint(p.ctx, p.order)
					if want := map[string]error{"error": errFault, "hang": context.Canceled}[how]; !errors.Is(
						err,
						want,
					) {
						t.Errorf("got error %v, want %v", err, want)
					}
					p.checkFailed(before)
				})
			}
		}
	}
}

// Each step in turn fails by a failpoint, or is cancelled.
func TestCheckpointFailpoints(t *testing.T) {
	for _, stop := range []bool{false, true} {
		for _, step := range ckpt.CheckpointSteps() {
			if step == "end" || step == "publish" {
				continue // the image is already complete: TestEndFails, TestPublishFails
			}
			for _, how := range []string{"error", "cancel"} {
				t.Run(fmt.Sprintf("stop=%v/%s/%s", stop, step, how), func(t *testing.T) {
					p := newPlay(t, savedOnce(t), fault{})
					p.order.Stop = stop
					want := p.failAt(step, how)
					before := filesIn(t, p.dir)
					_, err := ckpt.Checkpoint(p.ctx, p.order)
					if !errors.Is(err, want) {
						t.Errorf("got error %v, want %v", err, want)
					}
					p.checkFailed(before)
				})
			}
		}
	}
}

// failAt makes a step fail, or cancels the checkpoint at the step.
func (p *play) failAt(step, how string) error {
	action := map[string]string{"error": "error", "cancel": "until:/never"}[how]
	points, err := ckpt.ParseFailpoints(step + "=" + action)
	if err != nil {
		p.t.Fatal(err)
	}
	p.order.Fail = points
	p.order.Log = p.watch(step, how == "cancel")
	if how == "error" {
		return ckpt.ErrFailpoint
	}
	return context.Canceled
}

// Once the image is complete nothing undoes it, and no program stays frozen.
func TestEndFails(t *testing.T) {
	for _, test := range []struct {
		name  string
		wrong fault
		how   string
		ended int
		fails error
	}{
		{"one cannot be killed", fault{"kill 1#1", "error"}, "", 1, errFault},
		{"the other cannot be killed", fault{"kill 2#1", "error"}, "", 1, errFault},
		{"failpoint", fault{}, "error", 0, ckpt.ErrFailpoint},
		{"the caller gives up", fault{}, "cancel", 2, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlay(t, t.TempDir(), test.wrong)
			p.order.Stop = true
			switch test.how {
			case "error":
				p.failAt("end", "error")
			case "cancel":
				p.order.Log = p.watch("end", true)
			}
			saved, err := ckpt.Checkpoint(p.ctx, p.order)
			if !errors.Is(err, test.fails) {
				t.Errorf("got error %v, want %v", err, test.fails)
			}
			if saved == nil || saved.Manifest.Generation != 1 {
				t.Errorf("saved %+v", saved)
			}
			if len(p.ended) != test.ended {
				t.Errorf("ended: %v", p.ended)
			}
			p.ended = nil
			p.checkUndone()
		})
	}
}

// If publishing to a stream fails, the programs run on.
func TestPublishFails(t *testing.T) {
	for _, how := range []string{"error", "hang"} {
		p := newPlay(t, t.TempDir(), fault{"publish#1", how})
		p.order.Stop = true
		p.order.Publish = func(ctx context.Context, _ uint64, _ *contents.Limit) error { return p.call(ctx, "publish") }
		if _, err := ckpt.Checkpoint(p.ctx, p.order); err == nil {
			t.Error("got no error")
		}
		p.checkUndone()
	}
}

// A busy checkpoint is retried: in between all gates are opened, and CRIU's directory is emptied.
func TestCheckpointRetries(t *testing.T) {
	for _, call := range []string{"begin gpu 1#1", "quiesce gpu 2#1", "freeze 2#1", "cut gpu 1#1", "dump 2#1", "hold#1"} {
		t.Run(call, func(t *testing.T) {
			p := newPlay(t, t.TempDir(), fault{call, "busy"})
			if _, err := ckpt.Checkpoint(p.ctx, p.order); err != nil {
				t.Fatal(err)
			}
			p.closed = nil // they were closed and opened again
			p.checkUndone()
		})
	}
}

// Programs that never become idle fail the checkpoint at its deadline.
func TestCheckpointDeadlines(t *testing.T) {
	forever := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for _, test := range []struct {
		name  string
		order func(*play)
		want  error
	}{
		{"no commit", func(p *play) { p.order.Hold = forever }, context.DeadlineExceeded},
		{"always busy", func(p *play) {
			p.order.Hold = func(context.Context) error { return ckpt.ErrBusy }
		}, ckpt.ErrBusy},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlay(t, savedOnce(t), fault{})
			p.order.Deadline = 50 * time.Millisecond
			test.order(p)
			before := filesIn(t, p.dir)
			if _, err := ckpt.Checkpoint(p.ctx, p.order); !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %v", err, test.want)
			}
			p.checkFailed(before)
		})
	}
}

// An obstacle is reported before anything is touched.
func TestCheckpointObstacle(t *testing.T) {
	p := newPlay(t, savedOnce(t), fault{})
	c := p.order.CPU.(*cpu)
	for _, tree := range c.trees {
		tree.Obstacles = []ckpt.Obstacle{{Subject: "pid 7", Reason: "is traced"}, {Subject: "file x", Harmless: true}}
	}
	before := filesIn(t, p.dir)
	_, err := ckpt.Checkpoint(p.ctx, p.order)
	var refused *ckpt.ObstacleError
	if !errors.As(err, &refused) || len(refused.Obstacles) != 2 {
		t.Errorf("got error %v", err)
	}
	if i := slices.IndexFunc(p.calls, func(call string) bool { return !strings.HasPrefix(call, "inspect") }); i >= 0 {
		t.Errorf("after an obstacle: %s", p.calls[i])
	}
	p.checkUndone()
	sameContents(t, before, filesIn(t, p.dir))
}
