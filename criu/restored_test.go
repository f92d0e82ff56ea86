package criu

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
)

// trackRestored implements ckpt.Track for restored programs.
func (c *CPU) trackRestored(ctx context.Context, process proc.Identity) (*os.File, func(), error) {
	userfaultfd, err := c.TrackRestored(ctx, process)
	return userfaultfd, func() {}, err
}

// newPatchedCPU returns a CPU with the CRIU that phos builds.
func newPatchedCPU(t *testing.T) *CPU {
	t.Helper()
	cpu := newCPU(t)
	if !cpu.trackedByOthers(within(t)) {
		harness.Need(t, "criu", errors.New("this CRIU has no track_written"))
	}
	return cpu
}

// comeBack restores a program lazily, and waits for its memory.
func (s *subject) comeBack(t *testing.T, cpu *CPU, saved *packed) ckpt.Restored {
	t.Helper()
	back := saved.restore(t, cpu, saved.load(t, cpu))
	s.root = back.Processes()[saved.tree.Processes[0].PID]
	if err := cpu.Settle(within(t), s.root); err != nil {
		t.Fatal(err)
	}
	return back
}

// TestRestoredTracked: a restored program is copied while it runs, like one that has just started,
// and so is one that is restored again. Another phosd can do it, too.
func TestRestoredTracked(t *testing.T) {
	cpu := newPatchedCPU(t)
	for _, uid := range []int{0, ordinary} {
		t.Run(strconv.Itoa(uid), func(t *testing.T) {
			command := python(t, directory(t, uid), hoard)
			if uid != 0 {
				command = asUser(command)
			}
			s := begin(t, command)
			s.says("at one")
			saved := s.save(cpu, true).pack(t)
			for _, next := range []string{"one", ""} {
				s.comeBack(t, cpu, saved)
				dir := images(t, uid)
				s.precopyBy(cpu, dir, cpu.trackRestored)
				if next != "" {
					s.allow(next)
					s.says("at two")
				}
				again := s.saveInto(cpu, dir, true)
				if dumped := pageBytes(t, dir.Name()); dumped > 24<<20 {
					t.Errorf("dumped %d bytes", dumped)
				}
				saved = again.pack(t)
			}
			back := s.comeBack(t, cpu, saved)
			s.allow("two")
			ends(t, back, 7)
			s.says("done True")
		})
	}
}

// TestRestoredForgotten: a restored process that gets another userfaultfd in the middle of a
// checkpoint loses the one of its restore, and what that has protected is saved as it is now.
func TestRestoredForgotten(t *testing.T) {
	cpu := newPatchedCPU(t)
	s := begin(t, python(t, directory(t, 0), hoard))
	s.says("at one")
	s.comeBack(t, cpu, s.save(cpu, true).pack(t))
	dir := images(t, 0)
	s.precopyBy(cpu, dir, cpu.trackRestored)
	if err := cpu.ForgetTracked(within(t), s.root); err != nil {
		t.Fatal(err)
	}
	if _, err := cpu.TrackRestored(within(t), s.root); !errors.Is(err, ckpt.ErrUntracked) {
		t.Errorf("got %v, want ErrUntracked", err)
	}
	s.allow("one")
	s.says("at two")
	saved := s.saveInto(cpu, dir, true)
	if dumped := pageBytes(t, dir.Name()); dumped < 96<<20 {
		t.Errorf("dumped %d bytes", dumped)
	}
	back := s.comeBack(t, cpu, saved.pack(t))
	s.allow("two")
	ends(t, back, 7)
	s.says("done True")
}

// replaced calls exec after its restore.
const replaced = `
if len(sys.argv) > 1 and sys.argv[-1] == 'new':
    memory = [bytearray([i]) * (1 << 20) for i in range(48)]
    step('two')
    say('done', all(memory[i].count(i) == 1 << 20 for i in range(48)))
    sys.exit(7)
memory = bytearray(32 << 20)
step('one')
os.execv(sys.executable, sys.orig_argv + ['new'])
`

// TestRestoredReplaced: what tracked a restored program does not track what it becomes by exec,
// whose memory is saved all the same.
func TestRestoredReplaced(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), replaced))
	s.says("at one")
	s.comeBack(t, cpu, s.save(cpu, true).pack(t))
	s.allow("one")
	s.says("at two")
	dir := images(t, 0)
	tree, err := cpu.Inspect(within(t), s.root)
	if err != nil {
		t.Fatal(err)
	}
	done, err := cpu.Precopy(within(t), tree, dir, cpu.trackRestored)
	if err != nil && !errors.Is(err, ckpt.ErrUntracked) {
		t.Fatal(err)
	}
	if done.Drop != nil {
		t.Cleanup(func() { _ = done.Drop() })
	}
	back := s.comeBack(t, cpu, s.saveInto(cpu, dir, true).pack(t))
	s.allow("two")
	ends(t, back, 7)
	s.says("done True")
}

// TestStillComing: phos no longer knows that memory is still coming, because the restorer was
// killed. The dump is refused, and the program goes on; later it is saved with all it has.
func TestStillComing(t *testing.T) {
	cpu := newPatchedCPU(t)
	s := begin(t, python(t, directory(t, 0), hoard))
	s.says("at one")
	saved := s.save(cpu, true).pack(t)
	order := saved.load(t, cpu)
	pager := order.Memory.(memory).PID()
	back, err := cpu.Restore(within(t), order)
	if err != nil {
		t.Fatal(err)
	}
	s.root = back.Processes()[saved.tree.Processes[0].PID]
	t.Cleanup(func() { endTree(s.root) })
	if err := unix.Kill(pager, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pager, unix.SIGCONT) })
	if !back.(*restored).client.Loading() {
		t.Skip("all memory is there already")
	}
	if err := back.Keep(); err != nil {
		t.Fatal(err)
	}
	_ = unix.Kill(back.(*restored).client.Identity().PID, unix.SIGKILL)
	eventually(t, "the restorer has ended", func() bool { return back.(*restored).client.Identity().Gone() })
	if err := cpu.Settle(within(t), s.root); err != nil {
		t.Fatal(err)
	}
	_, frozen := s.freeze(cpu)
	err = frozen.Dump(within(t), images(t, 0))
	if err == nil || !strings.Contains(err.Error(), "still comes") {
		t.Errorf("got %v", err)
	}
	if err := frozen.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pager, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.allow("one")
	s.says("at two")
	eventually(t, "the pager has ended", func() bool { return unix.Kill(pager, 0) != nil })
	back = s.comeBack(t, cpu, s.save(cpu, true).pack(t))
	s.allow("two")
	ends(t, back, 7)
	s.says("done True")
}
