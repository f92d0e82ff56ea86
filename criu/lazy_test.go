package criu

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/checkpoint-restore/go-criu/v7/crit"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/mm"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/pagemap"
	"github.com/checkpoint-restore/go-criu/v7/crit/images/pstree"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/criu/imagefile"
	"github.com/phos-gpu/phos/criu/pager"
	"github.com/phos-gpu/phos/tests/harness"
)

// packed is a dump in an image.
type packed struct {
	*saved
	hash string
	list image.Tree
	pack *os.File
}

// pack puts a dump into an image.
func (r *saved) pack(t *testing.T) *packed {
	t.Helper()
	directory, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	dir, err := store.Init(directory)
	if err != nil {
		t.Fatal(err)
	}
	transaction, err := dir.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	pack, err := transaction.NewPack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pack.Close() })
	writer := contents.NewWriter(pack, nil, contents.WriterOptions{})
	var tree image.Tree
	prefix := strconv.Itoa(r.tree.Processes[0].PID) + "/"
	for _, where := range []string{"", ckpt.ParentImages + "/", ckpt.ParentImages + "/" + ckpt.ParentImages + "/"} {
		names, _ := os.ReadDir(filepath.Join(r.images.Name(), where))
		for _, each := range names {
			if !each.Type().IsRegular() || strings.HasSuffix(each.Name(), ".log") {
				continue
			}
			file, err := os.Open(filepath.Join(r.images.Name(), where, each.Name()))
			if err != nil {
				t.Fatal(err)
			}
			entry, err := writer.PutFile(within(t), prefix+where+each.Name(), file)
			if err != nil {
				t.Fatal(err)
			}
			tree.Entries = append(tree.Entries, entry)
			_ = file.Close()
		}
	}
	hash, err := writer.PutTree(within(t), &tree)
	if err == nil {
		err = writer.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &packed{r, hash.String(), tree, pack}
}

// files returns the entries by the names of the files.
func (p *packed) files() map[string]image.Entry {
	found := map[string]image.Entry{}
	for _, entry := range p.list.Entries {
		_, name, _ := strings.Cut(entry.Name, "/")
		found[name] = entry
	}
	return found
}

// load unpacks what the pager does not, starts it, and returns options that restore everything.
func (p *packed) load(t *testing.T, cpu *CPU) ckpt.RestoreOptions {
	t.Helper()
	root := p.tree.Processes[0]
	if !cpu.CanLoad(within(t), root.UID) {
		harness.Need(t, "criu", errors.New("this CRIU has no lazy pages"))
	}
	order := p.order(t)
	order.Images = images(t, int(root.UID))
	names, err := os.ReadDir(p.images.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range names {
		if !each.Type().IsRegular() || cpu.Composes(each.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(p.images.Name(), each.Name()))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(order.Images.Name(), each.Name())
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(to, int(root.UID), int(root.GID)); err != nil {
			t.Fatal(err)
		}
	}
	order.Memory, err = cpu.Load(within(t), ckpt.LoadOptions{
		Image: "IMAGE", Tree: p.hash, Root: root.PID, Images: order.Images, Packs: []*os.File{p.pack},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = order.Memory.Close() })
	return order
}

// TestLazyPrograms: all programs come back when their memory comes later.
func TestLazyPrograms(t *testing.T) {
	cpu := newCPU(t)
	for name, text := range programs {
		t.Run(name, func(t *testing.T) {
			s := begin(t, python(t, directory(t, 0), text))
			s.says("at one")
			saved := s.save(cpu, true).pack(t)
			back := saved.restore(t, cpu, saved.load(t, cpu))
			s.allow("one")
			ends(t, back, 7)
			s.says("done")
		})
	}
}

// TestLazyTracked: pages come from the images of the precopy, too, lazily and eagerly.
func TestLazyTracked(t *testing.T) {
	cpu := newCPU(t)
	for _, eager := range []bool{false, true} {
		t.Run("eager "+strconv.FormatBool(eager), func(t *testing.T) {
			s := beginTracked(t, cpu, ordinary, hoard)
			s.says("at one")
			dir := images(t, ordinary)
			s.precopy(cpu, dir)
			s.allow("one")
			s.says("at two")
			saved := s.saveInto(cpu, dir, true).pack(t)
			order := saved.load(t, cpu)
			if lazy := order.Memory.Bytes(); lazy < 96<<20 {
				t.Errorf("%d bytes come later", lazy)
			}
			order.Eager = eager
			back := saved.restore(t, cpu, order)
			if eager && back.(*restored).client.Loading() {
				t.Error("memory is still coming")
			}
			s.allow("two")
			ends(t, back, 7)
			s.says("done True")
		})
	}
}

// storm is a program that does to its memory whatever a program can, from the first instant after
// its restore, and knows what each page must hold. Each of its threads has an area of its own.
const storm = `
import ctypes, random, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
page, zeros = 4096, bytes(4096)
READ_WRITE, PRIVATE_ANON, FIXED, DONTNEED = 3, 0x22, 0x10, 4
threads, seed = int(os.environ.get('THREADS', '1')), int(os.environ.get('SEED', '1'))
count = 24000 // threads
def made(i, version=0): return ((i * 2654435761 + version * 40503 + 1) & (2**64 - 1)).to_bytes(8, 'little') * 512
def mapping_end(address):
    for line in open('/proc/self/maps'):
        start, end = (int(each, 16) for each in line.split()[0].split('-'))
        if start <= address < end: return end

class Area:
    def __init__(self, number):
        self.chance = random.Random(seed * 100 + number)
        self.children = []
        base = libc.mmap(None, count * page, READ_WRITE, PRIVATE_ANON, -1, 0)
        self.where = [base + i * page for i in range(count)]
        self.content = [made(i, number) if i % 7 else zeros for i in range(count)]  # each seventh is never touched
        for i in range(count):
            if self.content[i] is not zeros: ctypes.memmove(self.where[i], self.content[i], page)
    def right(self, i): return self.where[i] is None or ctypes.string_at(self.where[i], page) == self.content[i]
    def run(self, longest):
        'a run of pages that are behind each other'
        where = self.where
        first = last = self.chance.randrange(count)
        while last + 1 < count and last - first < longest and where[first] and where[last + 1] == where[last] + page: last += 1
        return (first, last + 1) if where[first] else (first, first)
    def reap(self, pid):
        _, status = os.waitpid(pid, 0)
        assert status == 0, ('child', status)
    def fork(self):
        picked = [self.chance.randrange(count) for _ in range(300)]
        pid = os.fork()
        if pid: return self.children.append(pid)
        try:
            good = all(self.right(i) for i in picked)
            for i in picked[:50]:
                if self.where[i]: ctypes.memset(self.where[i], 1, page)
            grandchild = os.fork()
            if not grandchild: os._exit(0 if all(self.right(i) for i in picked[50:] if i not in picked[:50]) else 1)
            good = good and os.waitpid(grandchild, 0)[1] == 0
            if good and picked[0] % 2: os.execv('/bin/true', ['true'])
            os._exit(0 if good else 1)
        except BaseException: os._exit(2)
    def write(self):
        i = self.chance.randrange(count)
        if self.where[i]:
            self.content[i] = made(i, self.chance.randrange(1, 99)); ctypes.memmove(self.where[i], self.content[i], page)
    def read(self):
        r, w = os.pipe()
        i = self.chance.randrange(count)
        if self.where[i]:
            libc.write(w, ctypes.c_void_p(self.where[i]), page); assert os.read(r, page) == self.content[i], ('write(2)', i)
        os.close(r); os.close(w)
    def drop(self):
        first, end = self.run(700)
        if first < end: assert libc.madvise(self.where[first], (end - first) * page, DONTNEED) == 0
        for i in range(first, end): self.content[i] = zeros
    def move(self):
        first, end = self.run(700)
        if first == end: return
        old = self.where[first]
        end = min(end, first + (mapping_end(old) - old) // page)  # Linux before 6.17 moves only one mapping
        bytes = (end - first) * page
        fresh = libc.mmap(None, bytes, 0, PRIVATE_ANON, -1, 0)
        assert libc.mremap(old, bytes, bytes, 3, fresh) == fresh, ('mremap', ctypes.get_errno())
        for i in range(first, end): self.where[i] = fresh + (i - first) * page
    def unmap(self):
        first, end = self.run(50)
        if first == end: return
        at, bytes, again = self.where[first], (end - first) * page, self.chance.random() < 0.7
        if not again or threads == 1:  # with others, something else may be mapped there before it is again
            assert libc.munmap(at, bytes) == 0
        if again:
            assert libc.mmap(at, bytes, READ_WRITE, PRIVATE_ANON | FIXED, -1, 0) == at
        for i in range(first, end): self.content[i], self.where[i] = zeros, self.where[i] if again else None
    def act(self):
        for n in range(400 // threads):
            act = self.chance.choices(
                (self.fork, self.write, self.read, self.drop, self.move, self.unmap, lambda: None), (1, 30, 20, 4, 4, 4, 30))[0]
            act()
            i = self.chance.randrange(count)
            assert self.right(i), ('page', i, 'after', act.__name__, n)
            if len(self.children) > 4: self.reap(self.children.pop(0))
        for pid in self.children: self.reap(pid)

areas = [Area(n) for n in range(threads)]
failed = []
def guarded(area):
    try: area.act()
    except BaseException as error: failed.append(error)
step('one')
running = [threading.Thread(target=guarded, args=(area,)) for area in areas[1:]]
for each in running: each.start()
guarded(areas[0])
for each in running: each.join()
assert not failed, failed
wrong = [(n, i) for n, area in enumerate(areas) for i in range(count) if not area.right(i)]
assert not wrong, wrong[:20]
say('done'); sys.exit(7)
`

// TestLazyStorm: while memory comes, a program forks, execs, and moves, drops, unmaps and writes
// it, in one thread and in several.
func TestLazyStorm(t *testing.T) {
	cpu := newCPU(t)
	for seed := range 8 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			uid := []int{0, ordinary}[seed%4/2]
			saved, s := stormAt(t, cpu, uid, seed, "THREADS="+strconv.Itoa([]int{1, 4}[seed/4]))
			back := saved.restore(t, cpu, saved.load(t, cpu))
			ends(t, back, 7)
			s.says("done")
		})
	}
}

// stormAt returns a storm that is saved just before it begins, and will not wait.
func stormAt(t *testing.T, cpu *CPU, uid, seed int, settings ...string) (*packed, *subject) {
	t.Helper()
	command := python(t, directory(t, uid), storm)
	command.Env = append(command.Env, append(settings, "SEED="+strconv.Itoa(seed))...)
	if uid != 0 {
		command = asUser(command)
	}
	s := begin(t, command)
	s.says("at one")
	saved := s.save(cpu, true).pack(t)
	s.allow("one")
	return saved, s
}

// TestLazyBeside: an image is restored a second time while the first still loads.
func TestLazyBeside(t *testing.T) {
	cpu := newCPU(t)
	saved, s := stormAt(t, cpu, 0, 11)
	first := saved.restore(t, cpu, saved.load(t, cpu))
	order := saved.load(t, cpu)
	order.NewPids = true
	second := saved.restore(t, cpu, order)
	ends(t, first, 7)
	ends(t, second, 7)
	s.says("done")
}

// TestLazySavedAgain: what is saved while memory still comes waits for it, and has everything.
func TestLazySavedAgain(t *testing.T) {
	cpu := newCPU(t)
	command := python(t, directory(t, 0), hoard)
	s := begin(t, command)
	s.says("at one")
	saved := s.save(cpu, false)
	endTree(s.root)
	eventually(t, "the program has ended", func() bool { return s.root.Check() != nil })
	back := saved.pack(t).restore(t, cpu, saved.pack(t).load(t, cpu))
	for range 3 {
		s.root = back.Processes()[saved.tree.Processes[0].PID]
		if err := cpu.Settle(within(t), s.root); err != nil {
			t.Fatal(err)
		}
		next := s.save(cpu, true).pack(t)
		back = next.restore(t, cpu, next.load(t, cpu))
	}
	s.allow("one")
	s.says("at two")
	s.allow("two")
	ends(t, back, 7)
	s.says("done True")
}

// TestLazyDamaged: a page that cannot be verified is never given. The tree ends, and the message
// says which page it was.
func TestLazyDamaged(t *testing.T) {
	cpu := newCPU(t)
	saved, _ := stormAt(t, cpu, ordinary, 3)
	order := saved.load(t, cpu)
	saved.damage(t)
	back, err := cpu.Restore(within(t), order)
	if err == nil {
		t.Cleanup(func() { _ = back.Kill() })
		if err = back.Keep(); err == nil {
			err = back.Loaded(within(t))
		}
	}
	if err == nil || !strings.Contains(err.Error(), "image IMAGE: the page at 0x") {
		t.Errorf("got %v", err)
	}
	if back != nil {
		status, err := back.Wait(within(t))
		if err != nil || unix.WaitStatus(status).Signal() != unix.SIGKILL {
			t.Errorf("it ended with %#x, %v", status, err)
		}
	}
}

// damage changes a byte in most of the contents of the image.
func (p *packed) damage(t *testing.T) {
	t.Helper()
	info, err := p.pack.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for at := info.Size() / 4; at < info.Size()*3/4; at += 1 << 20 {
		if _, err := p.pack.WriteAt([]byte("damage"), at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPagerKilled: a tree without its pager is killed before it sees memory that is not its own.
func TestPagerKilled(t *testing.T) {
	cpu := newCPU(t)
	saved, s := stormAt(t, cpu, 0, 4)
	order := saved.load(t, cpu)
	pager := order.Memory.(memory).PID()
	back, err := cpu.Restore(within(t), order)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = back.Kill() })
	if !back.(*restored).client.Loading() {
		t.Skip("all memory is there already")
	}
	if err := unix.Kill(pager, unix.SIGKILL); err != nil {
		t.Skip("all memory is there already")
	}
	_ = back.Keep() // the tree may have been killed by now
	err = back.Loaded(within(t))
	if err == nil {
		ends(t, back, 7) // it was just complete
		s.says("done")
		return
	}
	if !strings.Contains(err.Error(), "the pager has ended") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(s.text(), "done") {
		t.Error("the program has run on")
	}
}

// TestRestorerKilled: the pager goes on without the restorer.
func TestRestorerKilled(t *testing.T) {
	cpu := newCPU(t)
	saved, s := stormAt(t, cpu, 0, 5)
	back, err := cpu.Restore(within(t), saved.load(t, cpu))
	if err != nil {
		t.Fatal(err)
	}
	root := back.Processes()[saved.tree.Processes[0].PID]
	t.Cleanup(func() { endTree(root) })
	if err := back.Keep(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(back.(*restored).client.Identity().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.says("done")
}

// forks has many short children, one after the other, from the first instant after its restore.
const forks = `
memory = [bytearray([i]) * (1 << 20) for i in range(200)]
step('one')
for n in range(300):
    child = os.fork()
    if not child: os._exit(0 if memory[n % 200][4096 * (n % 256)] == n % 200 else 1)
    assert os.waitpid(child, 0)[1] == 0, n
say('done', all(memory[i].count(i) == 1 << 20 for i in range(200)))
sys.exit(7)
`

// TestLazyForks: a program may fork more children while its memory comes than the pager may have
// descriptors.
func TestLazyForks(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), forks))
	s.says("at one")
	saved := s.save(cpu, true).pack(t)
	s.allow("one")
	order := saved.load(t, cpu)
	few := unix.Rlimit{Cur: 24, Max: 24}
	if err := unix.Prlimit(order.Memory.(memory).PID(), unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	back := saved.restore(t, cpu, order)
	ends(t, back, 7)
	s.says("done True")
}

// early is a program and its child with memory that does not come back lazily, and some that does.
const early = `
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
def fresh(mib, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
    area = mmap.mmap(-1, mib << 20, flags=flags)
    for at in range(0, mib << 20, 1 << 20): area[at:at + (1 << 20)] = os.urandom(1 << 20)
    return area
before = fresh(24)
shared = fresh(16, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
child = os.fork()
if not child:
    while True: time.sleep(1)
pinned = fresh(8)
assert libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(pinned))), ctypes.c_size_t(8 << 20)) == 0
alone = fresh(40)
step('one')
`

// TestPlan: what comes back before a program runs, and why, is told.
func TestPlan(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), early))
	s.says("at one")
	saved := s.save(cpu, true).pack(t)
	reader, err := contents.NewReader([]*os.File{saved.pack})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := cpu.Plan(reader, saved.hash, saved.tree.Processes[0].PID)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{"lazy": plan.LazyBytes}
	for why, bytes := range plan.Early {
		for _, word := range []string{"fork", "locked", "shared memory"} {
			if strings.Contains(why, word) {
				got[word] += bytes
			}
		}
	}
	for word, mib := range map[string]uint64{"lazy": 40, "fork": 2 * 24, "locked": 8, "shared memory": 16} {
		if low := mib << 20; got[word] < low || got[word] > low+low/2+8<<20 {
			t.Errorf("%s: %d bytes, want %d MiB and little more", word, got[word], mib)
		}
	}
}

// TestImagesRead compares what imagefile reads of CRIU's images with what CRIU's own decoder reads.
func TestImagesRead(t *testing.T) {
	cpu := newCPU(t)
	s := begin(t, python(t, directory(t, 0), programs["tree of processes"]))
	s.says("at one")
	dir := s.save(cpu, true).images.Name()
	lists, err := filepath.Glob(filepath.Join(dir, "pagemap-[0-9]*.img"))
	if err != nil || len(lists) < 2 {
		t.Fatalf("%d pagemaps, %v", len(lists), err)
	}
	for _, path := range lists {
		pid, _ := pager.PagemapOf(filepath.Base(path))
		comparePagemap(t, dir, pid)
		compareMappings(t, dir, pid)
	}
	parents, err := imagefile.ReadParents(readFile(t, dir, imagefile.Tree))
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]int{}
	for _, each := range decode(t, dir, imagefile.Tree, &pstree.PstreeEntry{}) {
		entry := each.Message.(*pstree.PstreeEntry)
		want[int(entry.GetPid())] = int(entry.GetPpid())
	}
	if !maps.Equal(parents, want) {
		t.Errorf("parents %v, want %v", parents, want)
	}
}

// comparePagemap compares the pages of a process. CRIU's decoder knows only where runs begin; their
// lengths must add up to that of the content.
func comparePagemap(t *testing.T, dir string, pid int) {
	t.Helper()
	name := imagefile.PagemapName(pid)
	got, err := imagefile.ReadPagemap(readFile(t, dir, name))
	if err != nil {
		t.Fatal(err)
	}
	entries := decode(t, dir, name, nil)
	if head := entries[0].Message.(*pagemap.PagemapHead); uint64(head.GetPagesId()) != got.ID || len(entries)-1 != len(got.Pages) {
		t.Fatalf("%s: %d runs of image %d, want %d of %d", name, len(got.Pages), got.ID, len(entries)-1, head.GetPagesId())
	}
	bytes := 0
	for i, run := range got.Pages {
		entry := entries[i+1].Message.(*pagemap.PagemapEntry)
		if run.Start != entry.GetVaddr() || run.InParent != (entry.GetFlags()&1 != 0) {
			t.Errorf("%s: run %+v, want %v", name, run, entry)
		}
		bytes += int(run.End - run.Start)
	}
	if want := len(readFile(t, dir, imagefile.PagesName(got.ID))); bytes != want || want == 0 {
		t.Errorf("%s: %d bytes, want %d", name, bytes, want)
	}
}

// compareMappings compares the mappings of a process.
func compareMappings(t *testing.T, dir string, pid int) {
	t.Helper()
	name := imagefile.MappingsName(pid)
	got, err := imagefile.ReadMappings(readFile(t, dir, name))
	if err != nil {
		t.Fatal(err)
	}
	want := decode(t, dir, name, &mm.MmEntry{})[0].Message.(*mm.MmEntry)
	if got.Program != uint64(want.GetExeFileId()) || len(got.All) != len(want.GetVmas()) {
		t.Fatalf("%s: %d mappings of %d, want %d of %d", name, len(got.All), got.Program, len(want.GetVmas()), want.GetExeFileId())
	}
	for i, m := range got.All {
		if vma := want.GetVmas()[i]; m.Start != vma.GetStart() || m.End != vma.GetEnd() {
			t.Errorf("%s: mapping %+v, want %v", name, m, vma)
		}
	}
}

// decode reads an image with CRIU's decoder.
func decode(t *testing.T, dir, name string, kind proto.Message) []*crit.CriuEntry {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	image, err := crit.New(file, nil, "", false, false).Decode(kind)
	if err != nil {
		t.Fatal(err)
	}
	return image.Entries
}

func readFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
