package criu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/writetrack"
	"github.com/phos-gpu/phos/tests/harness"
)

// handsOver makes a userfaultfd for the test, and closes its own.
const handsOver = `
import ctypes
userfaultfd = ctypes.CDLL(None, use_errno=True).syscall(323, os.O_CLOEXEC | os.O_NONBLOCK | 1)
say('userfaultfd', userfaultfd)
step('taken')
if userfaultfd >= 0: os.close(userfaultfd)
`

// tracked is a program whose memory is tracked.
type tracked struct {
	*subject
	userfaultfd *os.File
}

// beginTracked starts a program of Python that has handed over its userfaultfd.
func beginTracked(t *testing.T, cpu *CPU, uid int, text string) *tracked {
	t.Helper()
	probe, err := writetrack.New()
	if err == nil {
		err = errors.Join(writetrack.Enable(probe), probe.Close())
	}
	harness.Need(t, "userfaultfd with asynchronous write protection (Linux 6.7)", err)
	if !cpu.trackedByOthers(within(t)) {
		harness.Need(t, "criu", errors.New("this CRIU has no track_written"))
	}
	command := python(t, directory(t, uid), handsOver+text)
	if uid != 0 {
		command = asUser(command)
	}
	s := begin(t, command)
	s.says("at taken")
	number, err := strconv.Atoi(strings.TrimPrefix(strings.SplitN(s.text(), "\n", 2)[0], "userfaultfd "))
	if err != nil {
		t.Fatal(err)
	}
	file, err := proc.Borrow(s.root.PID, number)
	if err == nil {
		err = writetrack.Enable(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s.allow("taken")
	return &tracked{s, file}
}

// track implements ckpt.Track.
func (s *tracked) track(_ context.Context, process proc.Identity) (*os.File, func(), error) {
	if process != s.root {
		return nil, nil, ckpt.ErrUntracked
	}
	raw, err := s.userfaultfd.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	var copied *os.File
	controlled := raw.Control(func(fd uintptr) { copied, err = proc.Borrow(os.Getpid(), int(fd)) })
	if controlled != nil {
		err = controlled
	}
	return copied, func() {}, err
}

// precopy copies the program's memory.
func (s *tracked) precopy(cpu *CPU, dir *os.File) (drop func()) {
	s.t.Helper()
	return s.precopyBy(cpu, dir, s.track)
}

// precopyBy copies the program's memory with what track finds.
func (s *subject) precopyBy(cpu *CPU, dir *os.File, track ckpt.Track) (drop func()) {
	s.t.Helper()
	tree, err := cpu.Inspect(within(s.t), s.root)
	if err != nil {
		s.t.Fatal(err)
	}
	done, err := cpu.Precopy(within(s.t), tree, dir, track)
	if err != nil {
		s.t.Fatal(err)
	}
	drop = sync.OnceFunc(func() {
		if err := done.Drop(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(drop)
	return drop
}

// TestTracked: memory that was copied while the program ran is not dumped again, unless the program
// has written it since.
func TestTracked(t *testing.T) {
	cpu := newCPU(t)
	for _, uid := range []int{0, ordinary} {
		t.Run(strconv.Itoa(uid), func(t *testing.T) {
			s := beginTracked(t, cpu, uid, hoard)
			s.says("at one")
			dir := images(t, uid)
			s.precopy(cpu, dir)
			s.allow("one")
			s.says("at two")
			saved := s.saveInto(cpu, dir, true)
			precopied, dumped := pageBytes(t, filepath.Join(dir.Name(), ckpt.ParentImages)), pageBytes(t, dir.Name())
			if precopied < 96<<20 || dumped > 24<<20 {
				t.Errorf("precopied %d bytes, dumped %d", precopied, dumped)
			}
			back := saved.restore(t, cpu, saved.order(t))
			s.allow("two")
			ends(t, back, 7)
			s.says("done True")
		})
	}
}

// churn writes, drops, moves and maps memory in threads until it stands still, and remembers sums.
const churn = `
import mmap, random, threading, zlib
size, page = 24 << 20, 4096
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
huge = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
huge.madvise(mmap.MADV_HUGEPAGE)
heaps, more, ending = [], [], threading.Event()
def write(number):
    chance = random.Random(number)
    while not ending.is_set():
        where = chance.choice((area, huge))
        at = chance.randrange(size - 9)
        where[at:at + 8] = chance.randbytes(8)
        if number == 0 and chance.random() < 0.05:
            first = at // page * page
            where.madvise(mmap.MADV_DONTNEED, first, min(size - first, page * chance.randrange(1, 600)))
        if number == 1 and chance.random() < 0.05:
            heaps.append(bytearray(chance.randbytes(chance.randrange(1, 200000))))
            if len(heaps) > 50: del heaps[chance.randrange(50)]
        if number == 2 and chance.random() < 0.01:
            fresh = mmap.mmap(-1, page * 64, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            fresh[:] = chance.randbytes(page * 64)
            more.append(fresh)
            if len(more) > 20: more.pop(chance.randrange(20)).close()
def sums(): return [zlib.crc32(each) for each in (area, huge, *heaps, *more)]
threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
for each in threads: each.start()
say('running')
while not os.path.exists('still'): time.sleep(0.005)
ending.set()
for each in threads: each.join()
before = sums()
step('saved')
say('done', before == sums())
sys.exit(7)
`

// TestTrackedChurn: a program writes, drops and maps memory while it is copied, and comes back with
// what it had.
func TestTrackedChurn(t *testing.T) {
	cpu := newCPU(t)
	for round := range 3 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			s := beginTracked(t, cpu, 0, churn)
			s.says("running")
			dir := images(t, 0)
			s.precopy(cpu, dir)
			s.allow("still")
			s.says("at saved")
			saved := s.saveInto(cpu, dir, true)
			back := saved.restore(t, cpu, saved.order(t))
			s.allow("saved")
			ends(t, back, 7)
			s.says("done True")
		})
	}
}

// TestTrackedAgain: a program is saved again after it went on. The tracking of the first time has
// ended, whether that was told or not.
func TestTrackedAgain(t *testing.T) {
	cpu := newCPU(t)
	for _, told := range []bool{true, false} {
		t.Run(strconv.FormatBool(told), func(t *testing.T) {
			s := beginTracked(t, cpu, 0, hoard)
			s.says("at one")
			first := images(t, 0)
			tree, err := cpu.Inspect(within(t), s.root)
			if err != nil {
				t.Fatal(err)
			}
			done, err := cpu.Precopy(within(t), tree, first, s.track)
			if err != nil {
				t.Fatal(err)
			}
			s.saveInto(cpu, first, false)
			if told {
				if err := done.Drop(); err != nil {
					t.Fatal(err)
				}
			} else {
				cpu = newCPU(t) // of the phosd after one that was killed
			}
			s.allow("one")
			s.says("at two")
			second := images(t, 0)
			s.precopy(cpu, second)
			saved := s.saveInto(cpu, second, true)
			if dumped := pageBytes(t, second.Name()); dumped > 24<<20 {
				t.Errorf("dumped %d bytes", dumped)
			}
			back := saved.restore(t, cpu, saved.order(t))
			s.allow("two")
			ends(t, back, 7)
			s.says("done True")
		})
	}
}

// TestTrackedTwice: another checkpoint that looks for what was written, beside one that has copied
// the program, takes nothing from that.
func TestTrackedTwice(t *testing.T) {
	cpu := newCPU(t)
	s := beginTracked(t, cpu, 0, hoard)
	s.says("at one")
	first, second := images(t, 0), images(t, 0)
	s.precopy(cpu, first)
	s.allow("one")
	s.says("at two")
	tree, err := cpu.Inspect(within(t), s.root)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := cpu.Precopy(within(t), tree, second, s.track); !errors.Is(err, ckpt.ErrTracked) || done.Kept {
		t.Errorf("both track the program: %v, %v", done.Kept, err)
	}
	saved := s.saveInto(cpu, first, true)
	back := saved.restore(t, cpu, saved.order(t))
	s.allow("two")
	ends(t, back, 7)
	s.says("done True")
}

// TestTrackedDirect: a process with a file open for direct I/O is copied while it stands still,
// also if it has opened that file since.
func TestTrackedDirect(t *testing.T) {
	cpu := newCPU(t)
	s := beginTracked(t, cpu, 0, strings.Replace(hoard, "step('two')", "f = os.open(sys.executable, os.O_RDONLY | os.O_DIRECT)\nstep('two')", 1))
	s.says("at one")
	dir := images(t, 0)
	s.precopy(cpu, dir)
	s.allow("one")
	s.says("at two")
	saved := s.saveInto(cpu, dir, true)
	if dumped := pageBytes(t, dir.Name()); dumped < 96<<20 {
		t.Errorf("dumped %d bytes", dumped)
	}
	back := saved.restore(t, cpu, saved.order(t))
	s.allow("two")
	ends(t, back, 7)
	s.says("done True")
}
