package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness/faulty"
)

// onBacking returns a fixture that accesses the image in the backing directory, without the failing
// file system.
func (r *fixture) onBacking(disk *faulty.Disk) *fixture {
	here, job := *r, *r.job
	job.Image = filepath.Join(disk.Backing, "image")
	here.job = &job
	return &here
}

// samples returns the operation counts at which something fails: the first, the last and one that
// is drawn, or many.
func samples(count int) (some []int) {
	if !full() && count > 3 {
		return []int{1, 2 + rand.IntN(count-2), count}
	}
	const limit = 40
	for i := range min(count, limit) {
		some = append(some, 1+i*(count-1)/max(min(count, limit)-1, 1))
	}
	return some
}

// failEach runs do once without failures. It then runs do again for each operation: that operation
// fails once, or from then on.
func (r *fixture) failEach(disk *faulty.Disk, what []faulty.Operation, do func(r *fixture, struck func() int)) {
	r.t.Helper()
	disk.Fail("", 0, 0)
	do(r, func() int { return 0 })
	counted := make(map[faulty.Operation]int)
	for _, each := range what {
		counted[each] = disk.Counted(each)
	}
	r.t.Log(counted)
	for _, each := range what {
		for _, nth := range samples(counted[each]) {
			for _, often := range []int{1, faulty.Forever} {
				r.t.Run(fmt.Sprintf("%s/%d/%d", each, nth, min(often, 2)), func(t *testing.T) {
					disk.Fail(each, nth, often)
					do(r.forSubtest(t), disk.Repair)
				})
			}
		}
	}
}

// namesFailure checks that an error says which operation failed, and why.
func (r *fixture) namesFailure(text string) {
	r.t.Helper()
	if !strings.Contains(text, "input/output error") || !strings.Contains(text, r.job.Image) {
		r.t.Errorf("error is %q", text)
	}
}

// writes are the operations on a file system to which an image is written.
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

// TestDiskFails: operations on the image's file system fail at any time, once or permanently.
func TestDiskFails(t *testing.T) {
	r, disk := newFixtureOnFaulty(t)
	t.Run("first", func(t *testing.T) {
		r.forSubtest(
			t,
		).failEach(
			disk,
			writes,
			func(r *fixture, struck func() int) { r.checkpointOnFaulty(disk, struck, false) },
		)
	})
	t.Run("next", func(t *testing.T) {
		r := r.forSubtest(t)
		r.job.PreDump()
		r.failEach(disk, writes, func(r *fixture, struck func() int) { r.checkpointOnFaulty(disk, struck, true) })
	})
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// checkpointOnFaulty takes a checkpoint that may fail. kept is set if there is an image already.
func (r *fixture) checkpointOnFaulty(disk *faulty.Disk, struck func() int, kept bool) {
	r.t.Helper()
	backing := r.onBacking(disk)
	before := backing.snapshot()
	text, err := r.tryCheckpoint(false)
	failed := struck()
	r.stillRuns()
	r.clean()
	if err != nil {
		r.namesFailure(text)
		if failed == 0 {
			r.t.Errorf("checkpoint failed without a failed operation: %s", text)
		}
		backing.imageUnchanged(before, failed > 1)
		return
	}
	backing.oneGenerationMore(before)
	if !kept {
		if err := os.RemoveAll(backing.job.Image); err != nil {
			r.t.Fatal(err)
		}
	}
}

// imageUnchanged checks that a failed checkpoint left the image as it was. After permanent
// failures, unfinished files may remain; the next checkpoint removes them.
func (r *fixture) imageUnchanged(before snapshot, forGood bool) {
	r.t.Helper()
	if len(before.generations) > 0 {
		r.unchanged(before, forGood)
		return
	}
	left, _ := filepath.Glob(filepath.Join(r.job.Image, "*", "*"))
	if _, err := os.Stat(r.job.Image); err == nil && !forGood || len(left) > 0 && !forGood {
		r.t.Errorf("left behind: %s: %v", r.job.Image, left)
	}
	if err := os.RemoveAll(r.job.Image); err != nil {
		r.t.Fatal(err)
	}
}

// TestDiskFailsAtTheEnd: a checkpoint that would end the program fails, so the program continues.
func TestDiskFailsAtTheEnd(t *testing.T) {
	r, disk := newFixtureOnFaulty(t)
	backing := r.onBacking(disk)
	r.failEach(disk, []faulty.Operation{faulty.Write, faulty.Sync, faulty.Rename}, func(r *fixture, struck func() int) {
		backing := backing.forSubtest(r.t)
		before := backing.snapshot()
		text, err := r.tryCheckpoint(true)
		failed := struck()
		if err == nil {
			r.cleanWith(0, 0)
			backing.oneGenerationMore(before)
			r.restore()
			r.stillRuns()
			return
		}
		r.namesFailure(text)
		r.stillRuns()
		r.clean()
		backing.imageUnchanged(before, failed > 1)
	})
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestDiskFailsOnRestore: reads of the image fail at any time during a restore. No process may be
// left, and the image must be unchanged.
func TestDiskFailsOnRestore(t *testing.T) {
	r, disk := newFixtureOnFaulty(t)
	r.job.Dump()
	r.cleanWith(0, 0)
	backing := r.onBacking(disk)
	before := backing.snapshot()
	r.failEach(disk, []faulty.Operation{faulty.Read, faulty.Open, faulty.List}, func(r *fixture, struck func() int) {
		text, err := r.tryRestore("--eager")
		struck()
		if err == nil {
			*r.restorers = 1
			r.stillRuns()
			r.job.Kill()
		} else {
			r.namesFailure(text)
		}
		r.cleanWith(0, 0)
		backing.forSubtest(r.t).unchanged(before, false)
	})
	r.failEach(disk, []faulty.Operation{faulty.Read, faulty.Open}, func(r *fixture, struck func() int) {
		if text, err := r.job.TryCli("image", "check", r.job.Image); struck() > 0 && err != nil {
			r.namesFailure(text)
		} else if err != nil {
			r.t.Errorf("%v: %s", err, text)
		}
	})
	r.restore()
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// TestDiskFailsUnderTools: pruning with failing reads or writes leaves a whole image. Tools that
// read an image report what they could not read.
func TestDiskFailsUnderTools(t *testing.T) {
	r, disk := newFixtureOnFaulty(t)
	for range 3 {
		r.job.PreDump()
	}
	backing := r.onBacking(disk)
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(backing.job.Image)); err != nil {
		t.Fatal(err)
	}
	t.Run("prune", func(t *testing.T) {
		r.forSubtest(t).failEach(disk, writes, func(r *fixture, struck func() int) {
			text, err := r.job.TryCli("image", "prune", r.job.Image, "--keep", "1")
			struck()
			backing := backing.forSubtest(r.t)
			backing.verified()
			left := backing.snapshot().generations
			if !slices.Contains(left, 3) || err == nil && len(left) != 1 {
				r.t.Errorf("left behind: %v after %q", left, text)
			}
			if err != nil {
				r.namesFailure(text)
			}
			if err := os.RemoveAll(backing.job.Image); err != nil {
				r.t.Fatal(err)
			}
			if err := os.CopyFS(backing.job.Image, os.DirFS(kept)); err != nil {
				r.t.Fatal(err)
			}
		})
	})
	before := backing.snapshot()
	for _, tool := range []string{"verify", "list", "show"} {
		t.Run(tool, func(t *testing.T) {
			r.forSubtest(
				t,
			).failEach(
				disk,
				[]faulty.Operation{faulty.Read, faulty.Open, faulty.List},
				func(r *fixture, struck func() int) {
					text, err := r.job.TryCli("image", tool, r.job.Image)
					if failed := struck(); err != nil {
						r.namesFailure(text)
					} else if failed > 1 && tool == "verify" { // a single failure may be read again
						r.t.Errorf("no read error was reported: %q", text)
					}
					backing.forSubtest(r.t).unchanged(before, false)
				},
			)
		})
	}
	r.finishAndCompare()
	r.cleanWith(0, 0)
}

// newFixtureOnFaulty returns a fixture whose image is on a faulty disk.
func newFixtureOnFaulty(t *testing.T) (*fixture, *faulty.Disk) {
	t.Helper()
	disk := faulty.Mount(t)
	r := newFixture(t)
	r.job.Image = filepath.Join(disk.Path, "image")
	return r, disk
}
