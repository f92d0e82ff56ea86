package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/tests/harness"
)

// touchedPart is the part of the memory that a step reads after a restore.
const touchedPart = 20

// measureRestore compares restores that load memory on access with those that load all memory
// first, and the latter with a plain copy.
func measureRestore(t *testing.T, b *bench) []row {
	daemon := b.daemon(t)
	program := b.startHolder(t, daemon, b.bytes)
	dir := imageDir(t, b.disk)
	program.dumpForRestore(dir)
	settle(t, dir)
	copyIntoMemory(t, dir, func([]byte) {}) // so that the image is in the page cache each time
	program.firstStep(false)
	var lazy, eager, loaded, copied, checked, cold, coldCopy []float64
	for range b.rounds {
		program.Kill()
		copied = append(copied, copyIntoMemory(t, dir, func([]byte) {}))
		checked = append(checked, copyIntoMemory(t, dir, func(chunk []byte) { image.Sum(chunk) }))
		step, _ := program.firstStep(false)
		lazy = append(lazy, step)
		program.Kill()
		step, whole := program.firstStep(true)
		eager, loaded = append(eager, step), append(loaded, whole)
		program.Kill()
		dropPageCache(t, dir)
		coldCopy = append(coldCopy, copyIntoMemory(t, dir, func([]byte) {}))
		dropPageCache(t, dir)
		_, whole = program.firstStep(true)
		cold = append(cold, whole)
		program.Kill()
		copyIntoMemory(t, dir, func([]byte) {}) // cache the image again
		program.firstStep(false)
	}
	program.finish()
	remove(t, dir)
	gigabytes := float64(b.bytes) / 1e9
	return []row{
		{
			name: "first step after a restore, lazy", value: median(lazy) / median(eager), most: 1.0 / 5,
			note: fmt.Sprintf(
				"of an eager one's; %.2f of %.2f s; the step touches 1/%d",
				median(lazy),
				median(eager),
				touchedPart,
			),
		},
		{
			name: "eager restore / checked copy", value: median(checked) / median(loaded), least: 0.7,
			note: fmt.Sprintf(
				"into memory, with checksums as a restore has them: %.2f of %.2f GB/s, cached, %d threads; processes included",
				gigabytes/median(loaded),
				gigabytes/median(checked),
				runtime.NumCPU(),
			),
		},
		{
			name: "eager restore / plain copy", value: median(copied) / median(loaded),
			note: fmt.Sprintf("into memory, without checksums: %.2f GB/s", gigabytes/median(copied)),
		},
		{
			name: "eager restore / plain copy, cold", value: median(coldCopy) / median(cold),
			note: fmt.Sprintf(
				"%.2f of %.2f GB/s: nothing of the image was in the page cache",
				gigabytes/median(cold),
				gigabytes/median(coldCopy),
			),
		},
	}
}

// openPacks opens the packs of an image, until the test ends.
func openPacks(t *testing.T, dir string) (packs []*os.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "packs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		packs = append(packs, file)
	}
	return packs
}

// dropPageCache removes the packs of an image from the page cache.
func dropPageCache(t *testing.T, dir string) {
	t.Helper()
	for _, file := range openPacks(t, dir) {
		if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
	}
}

// dumpForRestore saves and ends a program whose steps each read a part of its memory.
func (h *holder) dumpForRestore(dir string) {
	h.set(readBytesPerStep, h.bytes/touchedPart)
	h.waitStep()
	h.Image = dir
	h.Dump()
	h.savedSteps = h.get(steps)
}

// firstStep restores the program. It returns the seconds until it has done a whole step, and until
// the command returned: with all memory loaded.
func (h *holder) firstStep(eager bool) (step, loaded float64) {
	h.t.Helper()
	// The page is a file that another process writes, so the restore keeps its content.
	h.set(steps, h.savedSteps)
	flags := []string{}
	if eager {
		flags = append(flags, "--eager")
	}
	start := time.Now()
	stepped := make(chan float64, 1)
	go func() {
		// The step of the checkpoint had finished its GPU work, and completes only now.
		for h.get(steps) <= h.savedSteps+1 && time.Since(start) < 10*harness.Patience {
			time.Sleep(500 * time.Microsecond)
		}
		stepped <- time.Since(start).Seconds()
	}()
	h.RestoreDetached(flags...)
	loaded = time.Since(start).Seconds()
	step = <-stepped
	if h.get(steps) <= h.savedSteps+1 {
		h.t.Fatalf("the restored program does no step: %s", h.Stderr())
	}
	return step, loaded
}

// copyIntoMemory returns how long it takes to read the packs of an image into new memory and
// process each piece, on all processors.
func copyIntoMemory(t *testing.T, dir string, look func(piece []byte)) float64 {
	t.Helper()
	start := time.Now()
	for _, file := range openPacks(t, dir) {
		info, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		readWhole(t, file, int(info.Size()), look)
	}
	return time.Since(start).Seconds()
}

func readWhole(t *testing.T, file *os.File, bytes int, look func(piece []byte)) {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // as device memory has
	const pieceBytes = 2 * mebibyte
	var next atomic.Int64
	var readers sync.WaitGroup
	for range runtime.NumCPU() {
		readers.Go(func() {
			for {
				at := int(next.Add(pieceBytes)) - pieceBytes
				if at >= bytes {
					return
				}
				piece := memory[at:min(at+pieceBytes, bytes)]
				if _, err := file.ReadAt(piece, int64(at)); err != nil {
					t.Error(err)
					return
				}
				look(piece)
			}
		})
	}
	readers.Wait()
}
