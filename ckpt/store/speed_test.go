package store

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// speedChunks is the amount of data: 512 MiB of different chunks.
const speedChunks = 256

func speedSource(b *testing.B) []byte {
	source := mapped(b, speedChunks*image.ChunkBytes)
	block := noise(1, image.ChunkBytes)
	for i := range speedChunks {
		copy(source[i*image.ChunkBytes:], block)
		source[i*image.ChunkBytes] = byte(i)
		source[i*image.ChunkBytes+1] = byte(i >> 8)
	}
	return source
}

// mapped returns fresh memory from the kernel.
func mapped(b *testing.B, bytes int) []byte {
	b.Helper()
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		b.Fatal(err)
	}
	return memory
}

// pairs alternates two ways of doing the same. It reports the speed of the first relative to the
// second, each at its best, by the clock and by processor time. The latter is less disturbed by
// other work on the machine.
func pairs(b *testing.B, ours, theirs func()) {
	var times, used [2][]float64
	for b.Loop() {
		for i, each := range []func(){ours, theirs} {
			runtime.GC()
			start, before := time.Now(), processorSeconds(b)
			each()
			times[i] = append(times[i], time.Since(start).Seconds())
			used[i] = append(used[i], processorSeconds(b)-before)
		}
	}
	mine, other := slices.Min(times[0]), slices.Min(times[1])
	const bytes = speedChunks * image.ChunkBytes
	b.ReportMetric(bytes/mine/1e6, "MB/s")
	b.ReportMetric(bytes/other/1e6, "plain-MB/s")
	b.ReportMetric(other/mine, "ratio")
	b.ReportMetric(slices.Min(used[1])/slices.Min(used[0]), "cpu-ratio")
}

func processorSeconds(b *testing.B) float64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// BenchmarkPut compares hashing and writing into a pack with cp of the same bytes within the same
// directory, with as many goroutines.
func BenchmarkPut(b *testing.B) {
	source, path := speedSource(b), b.TempDir()
	d, err := Init(openDir(b, path))
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	original := filepath.Join(path, "original")
	if err := os.WriteFile(original, source, 0o600); err != nil {
		b.Fatal(err)
	}
	pairs(b, func() {
		transaction, err := d.Begin(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		pack, err := transaction.NewPack()
		if err != nil {
			b.Fatal(err)
		}
		w := contents.NewWriter(pack, nil, contents.WriterOptions{})
		err = inParallel(func(i int) error {
			_, _, err := w.Put(context.Background(), source[i*image.ChunkBytes:][:image.ChunkBytes])
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		_ = pack.Close()
		d.fresh = false
		if err := transaction.Abort(); err != nil {
			b.Fatal(err)
		}
	}, func() { copyFile(b, original, filepath.Join(path, "copy")) })
}

// inParallel calls do for each chunk, with all processors.
func inParallel(do func(i int) error) error {
	all := make([]int, speedChunks)
	for i := range all {
		all[i] = i
	}
	return pool.Each(context.Background(), pool.All(), all, do)
}

// buffers are pooled, like those of the package.
var buffers = sync.Pool{New: func() any { return new([image.ChunkBytes]byte) }}

func copyFile(b *testing.B, from, to string) {
	source, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer source.Close()
	target, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	err = inParallel(func(i int) error {
		buffer := buffers.Get().(*[image.ChunkBytes]byte)
		defer buffers.Put(buffer)
		if _, err := source.ReadAt(buffer[:], int64(i)*image.ChunkBytes); err != nil {
			return err
		}
		_, err := target.WriteAt(buffer[:], int64(i)*image.ChunkBytes)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	_ = target.Close()
	_ = os.Remove(to)
}

// BenchmarkRead compares reading and verifying into fresh memory with a plain copy.
func BenchmarkRead(b *testing.B) {
	source := speedSource(b)
	d, err := Init(openDir(b, b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	transaction, err := d.Begin(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = transaction.Abort() }()
	pack, err := transaction.NewPack()
	if err != nil {
		b.Fatal(err)
	}
	defer pack.Close()
	w := contents.NewWriter(pack, nil, contents.WriterOptions{})
	hashes := make([]image.Hash, speedChunks)
	for i := range hashes {
		if hashes[i], _, err = w.Put(context.Background(), source[i*image.ChunkBytes:][:image.ChunkBytes]); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	reader, err := contents.NewReader([]*os.File{pack})
	if err != nil {
		b.Fatal(err)
	}
	index, err := contents.LoadIndex(pack)
	if err != nil {
		b.Fatal(err)
	}
	offsets := map[image.Hash]int64{}
	for _, each := range index {
		offsets[each.Hash] = int64(each.Offset)
	}
	fresh := func(read func(i int, dst []byte) error) {
		memory := mapped(b, speedChunks*image.ChunkBytes)
		defer func() { _ = unix.Munmap(memory) }()
		err := inParallel(func(i int) error { return read(i, memory[i*image.ChunkBytes:][:image.ChunkBytes]) })
		if err != nil {
			b.Fatal(err)
		}
	}
	pairs(b, func() {
		fresh(func(i int, dst []byte) error { _, err := reader.Read(hashes[i], dst); return err })
	}, func() {
		fresh(func(i int, dst []byte) error {
			_, err := pack.ReadAt(dst, offsets[hashes[i]])
			return err
		})
	})
}
