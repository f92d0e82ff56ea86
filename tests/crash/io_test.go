package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness/faulty"
)

// behind is the room as it looks at the image behind the back of a file system that fails.
func (r *room) behind(disk *faulty.Disk) *room {
	here, job := *r, *r.job
	job.Image = filepath.Join(disk.Behind, "image")
	here.job = &job
	return &here
}

// times are those of so many at which something fails: all, or some.
func times(count int) (some []int) {
	most := 5
	if full() {
		most = 40
	}
	for i := range min(count, most) {
		some = append(some, 1+i*(count-1)/max(min(count, most)-1, 1))
	}
	return some
}

// sweep does something undisturbed, and again with each operation failing: once, or from then on.
func (r *room) sweep(disk *faulty.Disk, what []faulty.Operation, do func(r *room, struck func() int)) {
	r.t.Helper()
	disk.Fail("", 0, 0)
	do(r, func() int { return 0 })
	counted := make(map[faulty.Operation]int)
	for _, each := range what {
		counted[each] = disk.Counted(each)
	}
	r.t.Log(counted)
	for _, each := range what {
		for _, nth := range times(counted[each]) {
			for _, often := range []int{1, faulty.Forever} {
				r.t.Run(fmt.Sprintf("%s/%d/%d", each, nth, min(often, 2)), func(t *testing.T) {
					disk.Fail(each, nth, often)
					do(r.in(t), disk.Heal)
				})
			}
		}
	}
}

// names insists that an answer says what failed, and how.
func (r *room) names(text string) {
	r.t.Helper()
	if !strings.Contains(text, "input/output error") || !strings.Contains(text, r.job.Image) {
		r.t.Errorf("it says %q", text)
	}
}

// writes are what is asked of a file system that an image is written to.
var writes = []faulty.Operation{
	faulty.Write,
	faulty.Sync,
	faulty.Rename,
	faulty.Mkdir,
	faulty.Create,
	faulty.Open,
	faulty.Read,
	faulty.Remove,
	faulty.List,
}

// TestDiskFails: what an image lies on fails at any moment, once or for good.
func TestDiskFails(t *testing.T) {
	r, disk := newRoomOnFaulty(t)
	t.Run("first", func(t *testing.T) {
		r.in(t).sweep(disk, writes, func(r *room, struck func() int) { r.savesOnFaulty(disk, struck, false) })
	})
	t.Run("next", func(t *testing.T) {
		r := r.in(t)
		r.job.PreDump()
		r.sweep(disk, writes, func(r *room, struck func() int) { r.savesOnFaulty(disk, struck, true) })
	})
	r.ends()
	r.tidy(0, 0)
}

// savesOnFaulty takes a checkpoint that may fail. kept: there is an image already.
func (r *room) savesOnFaulty(disk *faulty.Disk, struck func() int, kept bool) {
	r.t.Helper()
	behind := r.behind(disk)
	before := behind.snapshot()
	text, err := r.save(false)
	failed := struck()
	r.runsOn()
	r.alone()
	if err != nil {
		r.names(text)
		if failed == 0 {
			r.t.Errorf("nothing has failed but the checkpoint: %s", text)
		}
		behind.leaves(before, failed > 1)
		return
	}
	behind.grown(before)
	if !kept {
		if err := os.RemoveAll(behind.job.Image); err != nil {
			r.t.Fatal(err)
		}
	}
}

// leaves insists that a checkpoint which failed has left what was there. On a disk that failed for
// good something may be left of it, which the next one clears.
func (r *room) leaves(before snapshot, forGood bool) {
	r.t.Helper()
	if len(before.generations) > 0 {
		r.unchanged(before, forGood)
		return
	}
	left, _ := filepath.Glob(filepath.Join(r.job.Image, "*", "*"))
	if _, err := os.Stat(r.job.Image); err == nil && !forGood || len(left) > 0 && !forGood {
		r.t.Errorf("left: %s: %v", r.job.Image, left)
	}
	if err := os.RemoveAll(r.job.Image); err != nil {
		r.t.Fatal(err)
	}
}

// TestDiskFailsAtTheEnd: a program that is to end with its checkpoint runs on when there is none.
func TestDiskFailsAtTheEnd(t *testing.T) {
	r, disk := newRoomOnFaulty(t)
	behind := r.behind(disk)
	r.sweep(disk, []faulty.Operation{faulty.Write, faulty.Sync, faulty.Rename}, func(r *room, struck func() int) {
		behind := behind.in(r.t)
		before := behind.snapshot()
		text, err := r.save(true)
		failed := struck()
		if err == nil {
			r.tidy(0, 0)
			behind.grown(before)
			r.restore()
			r.runsOn()
			return
		}
		r.names(text)
		r.runsOn()
		r.alone()
		behind.leaves(before, failed > 1)
	})
	r.ends()
	r.tidy(0, 0)
}

// TestDiskFailsOnRestore: an image cannot be read at any moment of a restore. No process is left,
// and the image is as it was.
func TestDiskFailsOnRestore(t *testing.T) {
	r, disk := newRoomOnFaulty(t)
	r.job.Dump()
	r.tidy(0, 0)
	behind := r.behind(disk)
	before := behind.snapshot()
	r.sweep(disk, []faulty.Operation{faulty.Read, faulty.Open, faulty.List}, func(r *room, struck func() int) {
		text, err := r.bring("--eager")
		struck()
		if err == nil {
			*r.keepers = 1
			r.runsOn()
			r.job.Kill()
		} else {
			r.names(text)
		}
		r.tidy(0, 0)
		behind.in(r.t).unchanged(before, false)
	})
	r.sweep(disk, []faulty.Operation{faulty.Read, faulty.Open}, func(r *room, struck func() int) {
		if text, err := r.job.TryCli("image", "check", r.job.Image); struck() > 0 && err != nil {
			r.names(text)
		} else if err != nil {
			r.t.Errorf("%v: %s", err, text)
		}
	})
	r.restore()
	r.ends()
	r.tidy(0, 0)
}

// TestDiskFailsUnderTools: what thins an image out leaves one that is whole, and what looks at one
// says what it could not read.
func TestDiskFailsUnderTools(t *testing.T) {
	r, disk := newRoomOnFaulty(t)
	for range 3 {
		r.job.PreDump()
	}
	behind := r.behind(disk)
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(behind.job.Image)); err != nil {
		t.Fatal(err)
	}
	t.Run("prune", func(t *testing.T) {
		r.in(t).sweep(disk, writes, func(r *room, struck func() int) {
			text, err := r.job.TryCli("image", "prune", r.job.Image, "--keep", "1")
			struck()
			behind := behind.in(r.t)
			behind.verified()
			left := behind.snapshot().generations
			if !slices.Contains(left, 3) || err == nil && len(left) != 1 {
				r.t.Errorf("left: %v after %q", left, text)
			}
			if err != nil {
				r.names(text)
			}
			if err := os.RemoveAll(behind.job.Image); err != nil {
				r.t.Fatal(err)
			}
			if err := os.CopyFS(behind.job.Image, os.DirFS(kept)); err != nil {
				r.t.Fatal(err)
			}
		})
	})
	before := behind.snapshot()
	for _, tool := range []string{"verify", "list", "show"} {
		t.Run(tool, func(t *testing.T) {
			r.in(
				t,
			).sweep(
				disk,
				[]faulty.Operation{faulty.Read, faulty.Open, faulty.List},
				func(r *room, struck func() int) {
					text, err := r.job.TryCli("image", tool, r.job.Image)
					if failed := struck(); err != nil {
						r.names(text)
					} else if failed > 1 && tool == "verify" { // what fails once may be read elsewhere
						r.t.Errorf("it has read everything: %q", text)
					}
					behind.in(r.t).unchanged(before, false)
				},
			)
		})
	}
	r.ends()
	r.tidy(0, 0)
}

// newRoomOnFaulty is a room whose image lies on a disk that fails when it is told to.
func newRoomOnFaulty(t *testing.T) (*room, *faulty.Disk) {
	t.Helper()
	disk := faulty.Mount(t)
	r := newRoom(t)
	r.job.Image = filepath.Join(disk.Path, "image")
	return r, disk
}
