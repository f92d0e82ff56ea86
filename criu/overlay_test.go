package criu

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// drift rewrites, grows, shrinks and moves some of its memory, and knows what it must hold.
const drift = `
import mmap, random, zlib
page, count = 4096, 12000
area = mmap.mmap(-1, count * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for i in range(count): area[i * page:(i + 1) * page] = random.Random(i).randbytes(page)
gone = mmap.mmap(-1, 300 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
gone[:] = random.Random(-1).randbytes(300 * page)
step('one')
for i in random.Random(7).sample(range(count), count // 50): area[i * page + 5:i * page + 9] = b'new!'
area.madvise(mmap.MADV_DONTNEED, 100 * page, 40 * page)
gone.close()
more = mmap.mmap(-1, 500 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
more[:] = random.Random(-2).randbytes(500 * page)
before = zlib.crc32(area), zlib.crc32(more)
step('two')
say('done', before == (zlib.crc32(area), zlib.crc32(more)))
sys.exit(7)
`

// TestOverlay: of a second copy only the pages remain that the first does not have. With these and
// the first, the program comes back lazily, and by CRIU alone.
func TestOverlay(t *testing.T) {
	cpu := newPatchedCPU(t)
	for _, lazy := range []bool{true, false} {
		t.Run("lazy "+strconv.FormatBool(lazy), func(t *testing.T) {
			s := beginTracked(t, cpu, ordinary, drift)
			s.says("at one")
			first := images(t, ordinary)
			drop := s.precopy(cpu, first)
			base := s.saveInto(cpu, first, false).pack(t)
			drop()
			s.allow("one")
			s.says("at two")
			second := images(t, ordinary)
			s.precopy(cpu, second)
			saved := s.saveInto(cpu, second, true)
			whole := pageBytes(t, filepath.Join(second.Name(), ckpt.ParentImages))
			base.layUnder(t, cpu, second)
			if left := pageBytes(t, filepath.Join(second.Name(), ckpt.ParentImages)); left > whole/8 {
				t.Errorf("%d of %d bytes remain", left, whole)
			}
			order := saved.order(t)
			if lazy {
				order = saved.pack(t).load(t, cpu)
			}
			back := saved.restore(t, cpu, order)
			s.allow("two")
			ends(t, back, 7)
			s.says("done True")
		})
	}
}

// layUnder lays an older dump under the parent images of a directory, and unpacks what is needed of
// it.
func (p *packed) layUnder(t *testing.T, cpu *CPU, dir *os.File) {
	t.Helper()
	reader, err := contents.NewReader([]*os.File{p.pack})
	if err != nil {
		t.Fatal(err)
	}
	older := ckpt.OlderImages{Reader: reader, Entries: p.files()}
	parent, err := ckpt.OpenParentImages(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	needed, err := cpu.Overlay(within(t), parent, older)
	if err != nil || len(needed) != 2 {
		t.Fatalf("%d files are needed, %v", len(needed), err)
	}
	into, err := ckpt.MakeParentImages(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	for name, entry := range needed {
		file, err := ckpt.CreateImage(into, strings.TrimPrefix(name, ckpt.ParentImages+"/"))
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Copy(within(t), entry, file); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
}
