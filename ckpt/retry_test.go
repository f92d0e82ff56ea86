package ckpt_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// A process that ends after the precopy has begun leaves an unfinished pack. The checkpoint
// succeeds without it.
func TestCheckpointLosesProcess(t *testing.T) {
	p := newPlay(t, t.TempDir(), fault{})
	all, asked := p.order.Devices, 0
	p.order.Devices = func(trees []*ckpt.Tree) ([]ckpt.GPU, error) {
		found, err := all(trees)
		if asked++; asked == 1 || err != nil {
			return found, err
		}
		if asked == 2 {
			if _, err := found[1].(*gpu).pack.WriteAt(make([]byte, 10000), 1<<12); err != nil {
				t.Error(err)
			}
		}
		return found[:1], nil
	}
	saved, err := ckpt.Checkpoint(p.ctx, p.order)
	if err != nil {
		t.Fatal(err)
	}
	halves := 0
	for _, each := range saved.Manifest.Processes {
		if each.GPU != nil {
			halves++
		}
	}
	if halves != 1 {
		t.Errorf("%d GPU halves were saved", halves)
	}
}

// passing is a CPU that reports an obstacle a few times.
type passing struct {
	*cpu
	looks    int
	obstacle ckpt.Obstacle
	// others is set if it is another file each time.
	others bool
}

func (p *passing) Inspect(ctx context.Context, root proc.Identity) (*ckpt.Tree, error) {
	tree, err := p.cpu.Inspect(ctx, root)
	if p.looks--; p.looks >= 0 && err == nil {
		seen := *tree
		seen.Obstacles = []ckpt.Obstacle{p.obstacle}
		tree = &seen
		if p.others {
			p.obstacle.Inode++
		}
	}
	return tree, err
}

// A transient obstacle is waited for until the deadline.
func TestCheckpointWaitsForTransientObstacle(t *testing.T) {
	p := newPlay(t, t.TempDir(), fault{})
	connecting := ckpt.Obstacle{Subject: "pid 7", Reason: "is connecting", Passing: true}
	p.order.CPU = &passing{p.order.CPU.(*cpu), 5, connecting, false}
	if _, err := ckpt.Checkpoint(p.ctx, p.order); err != nil {
		t.Fatal(err)
	}
	p = newPlay(t, t.TempDir(), fault{})
	p.order.CPU = &passing{p.order.CPU.(*cpu), 1 << 30, connecting, false}
	p.order.Deadline = 50 * time.Millisecond
	var refused *ckpt.ObstacleError
	if _, err := ckpt.Checkpoint(p.ctx, p.order); !errors.Is(err, ckpt.ErrBusy) || !errors.As(err, &refused) {
		t.Errorf("got error %v", err)
	}
	p.checkUndone()
}

// A program that opens one file after the other, of a kind that cannot be saved, is waited for; the
// same file is refused before the deadline.
func TestCheckpointWaitsForOpenFiles(t *testing.T) {
	opened := ckpt.Obstacle{Subject: "pid 7, descriptor 4", Reason: "is a userfaultfd", Inode: 9}
	for _, others := range []bool{true, false} {
		p := newPlay(t, t.TempDir(), fault{})
		looks := 9
		if !others {
			looks = 1 << 30
		}
		p.order.CPU = &passing{p.order.CPU.(*cpu), looks, opened, others}
		_, err := ckpt.Checkpoint(p.ctx, p.order)
		var refused *ckpt.ObstacleError
		switch {
		case others && err != nil:
			t.Errorf("other files: got %v", err)
		case !others && (errors.Is(err, ckpt.ErrBusy) || !errors.As(err, &refused)):
			t.Errorf("the same file: got %v, want that it is refused", err)
		}
	}
}

// TestLimitIsShared: all devices write within one limit, also one that joins during the checkpoint.
func TestLimitIsShared(t *testing.T) {
	const rate = 1 << 30
	p := newPlay(t, t.TempDir(), fault{})
	p.order.Options.BandwidthBytes = rate
	all := []*gpu{p.device(1, os.Getpid()), p.device(2, os.Getppid())}
	asked := 0
	p.order.Devices = func([]*ckpt.Tree) ([]ckpt.GPU, error) {
		asked++
		if asked == 1 { // the second program does not use a GPU yet
			return []ckpt.GPU{all[0]}, nil
		}
		return []ckpt.GPU{all[0], all[1]}, nil
	}
	if _, err := ckpt.Checkpoint(p.ctx, p.order); err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		if g.options.BandwidthBytes != rate || g.options.Limit == nil || g.options.Limit != all[0].options.Limit {
			t.Errorf("%s: %d bytes a second, limit %p; want %d and one limit", g.name, g.options.BandwidthBytes,
				g.options.Limit, rate)
		}
	}
}

// copying is a CPU that copies memory before the pause.
type copying struct {
	*cpu
	tracked bool
	// had says of each dump whether the copy was there.
	had []bool
}

func (c *copying) Precopy(_ context.Context, _ *ckpt.Tree, images *os.File, _ ckpt.Track) (done ckpt.Precopied, err error) {
	into, err := ckpt.MakeParentImages(images)
	if err != nil {
		return done, err
	}
	defer into.Close()
	file, err := ckpt.CreateImage(into, "pages-1.img")
	if err != nil {
		return done, err
	}
	return ckpt.Precopied{Drop: func() error { return nil }, Kept: c.tracked}, file.Close()
}

func (c *copying) Freeze(ctx context.Context, tree *ckpt.Tree) (ckpt.Frozen, error) {
	frozen, err := c.cpu.Freeze(ctx, tree)
	return &looking{frozen, c}, err
}

// looking looks for the copy in each dump.
type looking struct {
	ckpt.Frozen
	of *copying
}

func (l *looking) Dump(ctx context.Context, images *os.File) error {
	_, err := os.Stat(images.Name() + "/" + ckpt.ParentImages + "/pages-1.img")
	l.of.mu.Lock()
	l.of.had = append(l.of.had, err == nil)
	l.of.mu.Unlock()
	return l.Frozen.Dump(ctx, images)
}

// TestRetryKeepsCopy: a copy of memory that is tracked by others than CRIU is good for the next
// attempt, too.
func TestRetryKeepsCopy(t *testing.T) {
	for _, tracked := range []bool{true, false} {
		p := newPlay(t, t.TempDir(), fault{"cut gpu 1#1", "busy"})
		c := &copying{cpu: p.order.CPU.(*cpu), tracked: tracked}
		for _, tree := range c.trees {
			tree.Processes[0].ResidentBytes = 1 << 30
		}
		p.order.CPU = c
		if _, err := ckpt.Checkpoint(p.ctx, p.order); err != nil {
			t.Fatal(err)
		}
		if want := []bool{true, true, tracked, tracked}; !slices.Equal(c.had, want) {
			t.Errorf("tracked %v: dumps had the copy: %v", tracked, c.had)
		}
	}
}
