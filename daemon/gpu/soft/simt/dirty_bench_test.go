package simt_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
)

// BenchmarkMarks (tests/bench selects it by name) runs a kernel that mostly stores, alternately on
// device memory whose dirty bits were cleared and on host memory without dirty tracking. The ratio
// of the two times is the worst-case cost of dirty tracking.
func BenchmarkMarks(b *testing.B) {
	const (
		chunks = 8
		host   = 0x6000_0000_0000
		// 64 blocks of 256 threads store 256 words each.
		stores = "mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd3, %r2, 1024; add.s64 %rd2, %rd2, %rd3; mov.u32 %r4, 0;\n" +
			"L: st.global.u32 [%rd2], %r4; add.s64 %rd2, %rd2, 65536; add.u32 %r4, %r4, 1;\n" +
			"setp.lt.u32 %p1, %r4, 256; @%p1 bra L; ret;"
	)
	m := newMachine(b)
	k := m.kernel(m.link(body(stores)), "k")
	area := gpu.Range{Address: windowBase + 8*gpu.ChunkBytes, Bytes: chunks * gpu.ChunkBytes}
	if err := m.memory.MapHost(host, hugeMemory(b, int(area.Bytes))); err != nil {
		b.Fatal(err)
	}
	engine := simt.NewEngine(simt.Options{Cores: 1})
	store := func(to uint64) time.Duration {
		launch := simt.Launch{Grid: [3]uint32{64, 1, 1}, Block: [3]uint32{256, 1, 1}, Params: params(to)}
		began := time.Now()
		if err := engine.Run(context.Background(), k, launch, m.memory, nil); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	store(host)
	store(area.Address)
	var tracked, plain time.Duration
	for b.Loop() {
		m.memory.ClearDirty(area)
		tracked += store(area.Address)
		if dirty := m.memory.Dirty(area)[0]; dirty != 1<<chunks-1 {
			b.Fatalf("dirty bits: got %b", dirty)
		}
		plain += store(host)
	}
	b.ReportMetric(float64(tracked)/float64(plain), "of-unmarked")
}

// hugeMemory returns memory with the same page size as device memory.
func hugeMemory(b *testing.B, bytes int) []byte {
	b.Helper()
	memory, err := unix.Mmap(
		-1,
		0,
		bytes+gpu.ChunkBytes,
		unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS,
	)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Munmap(memory) })
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)
	return memory[:bytes]
}

// BenchmarkMarksRate compares the rates of a program that is never checkpointed, with and
// without dirty tracking: a matrix multiplication into device memory and into untracked memory. It
// measures CPU time, as the machine may be busy.
func BenchmarkMarksRate(b *testing.B) {
	const (
		n    = 256
		host = 0x6000_0000_0000
	)
	x := newMatmul(b, n)
	if err := x.memory.MapHost(host, hugeMemory(b, gpu.ChunkBytes)); err != nil {
		b.Fatal(err)
	}
	engine := simt.NewEngine(simt.Options{Cores: 1})
	plain := x.launch
	plain.Params = slices.Clone(x.launch.Params)
	binary.LittleEndian.PutUint64(plain.Params[16:], host) // the third parameter is the product's address
	run := func(launch simt.Launch) time.Duration {
		before := processorTime(b)
		if err := engine.Run(context.Background(), x.kernel, launch, x.memory, nil); err != nil {
			b.Fatal(err)
		}
		return processorTime(b) - before
	}
	run(plain)
	run(x.launch)
	var tracked, untracked []time.Duration
	for b.Loop() {
		tracked = append(tracked, run(x.launch))
		untracked = append(untracked, run(plain))
	}
	slices.Sort(tracked)
	slices.Sort(untracked)
	b.ReportMetric(float64(untracked[len(untracked)/2])/float64(tracked[len(tracked)/2]), "of-unmarked-rate")
}
