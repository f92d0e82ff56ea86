package load

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// benchChunks is how much device memory the benchmarks load: 1 GiB, or PHOS_BENCH_MIB.
func benchChunks(b *testing.B) int {
	b.Helper()
	text := os.Getenv("PHOS_BENCH_MIB")
	if text == "" {
		return 512
	}
	n, err := strconv.Atoi(text)
	must(b, err)
	return n / 2
}

func counted(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// plainCopy reads as much of the pack into fresh memory of the same kind, with as many threads,
// without verifying.
func plainCopy(b *testing.B, s *saved, chunks int) time.Duration {
	b.Helper()
	memory, err := unix.Mmap(
		-1,
		0,
		(chunks+1)*gpu.ChunkBytes,
		unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE,
	)
	must(b, err)
	defer func() { must(b, unix.Munmap(memory)) }()
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)
	began := time.Now()
	must(b, pool.Each(context.Background(), pool.All(), counted(chunks), func(i int) error {
		_, err := s.pack.ReadAt(memory[i*gpu.ChunkBytes:][:gpu.ChunkBytes], int64(i)*gpu.ChunkBytes)
		return err
	}))
	return time.Since(began)
}

// BenchmarkEager measures the speed of an eager load, relative to a plain copy of the image into
// fresh memory.
func BenchmarkEager(b *testing.B) {
	chunks := benchChunks(b)
	s := save(b, counted(chunks), nil)
	s.contents = nil
	plainCopy(b, s, chunks)
	var ours, plain time.Duration
	for b.Loop() {
		plain += plainCopy(b, s, chunks)
		c := openGPU(b, "soft:1,memory="+strconv.Itoa(chunks*2+64)+"MiB")
		l := New(s.reader, s.tree)
		backing := l.Backing("gpu0", c.Memory())
		began := time.Now()
		must(b, backing.Map(span(0, chunks)))
		must(b, l.Eager(context.Background()))
		ours += time.Since(began)
		must(b, backing.Unmap(span(0, chunks)))
	}
	b.ReportMetric(float64(plain)/float64(ours), "eager-speed/copy")
	b.ReportMetric(float64(chunks)*gpu.ChunkBytes*float64(b.N)/ours.Seconds()/1e9, "GB/s")
}

// BenchmarkFirstStep measures the time to the end of a first step that touches one chunk in twenty,
// lazily relative to eagerly.
func BenchmarkFirstStep(b *testing.B) {
	chunks := benchChunks(b)
	s := save(b, counted(chunks), nil)
	s.contents = nil
	restore := func(eager bool) time.Duration {
		c := openGPU(b, "soft:1,memory="+strconv.Itoa(chunks*2+64)+"MiB")
		l := New(s.reader, s.tree)
		backing := l.Backing("gpu0", c.Memory())
		began := time.Now()
		must(b, backing.Map(span(0, chunks)))
		ended := make(chan error, 1)
		if eager {
			ended <- l.Eager(context.Background())
		} else {
			go func() { ended <- l.Prefetch(context.Background()) }()
		}
		stream, err := c.NewStream(gpu.StreamOptions{})
		must(b, err)
		for chunk := 7; chunk < chunks; chunk += 20 {
			must(b, stream.Submit(gpu.Fill{Address: at(chunk) + 64, Pattern: 1, PatternBytes: 4, Columns: 16, Rows: 1}))
		}
		must(b, stream.Synchronize())
		took := time.Since(began)
		must(b, <-ended)
		must(b, backing.Unmap(span(0, chunks)))
		return took
	}
	var lazy, eager time.Duration
	for b.Loop() {
		lazy += restore(false)
		eager += restore(true)
	}
	b.ReportMetric(float64(lazy)/float64(eager), "lazy/eager")
}
