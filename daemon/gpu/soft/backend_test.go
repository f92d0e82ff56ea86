package soft

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/hijack/abi"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newTestContext(t testing.TB, b *Backend, ordinal int) gpu.Context {
	t.Helper()
	c, err := b.NewContext(ordinal, gpu.ContextOptions{})
	must(t, err)
	return c
}

func newTestStream(t testing.TB, c gpu.Context) gpu.Stream {
	t.Helper()
	s, err := c.NewStream(gpu.StreamOptions{})
	must(t, err)
	return s
}

func chunks(ordinal, first, n int) gpu.Range {
	return gpu.Range{
		Address: gpu.DefaultWindow(ordinal, 2).Address + uint64(first)*gpu.ChunkBytes,
		Bytes:   uint64(n) * gpu.ChunkBytes,
	}
}

// TestLedger runs two backends on one ledger, as two workers do.
func TestLedger(t *testing.T) {
	l, err := ledger.Create(filepath.Join(t.TempDir(), "ledger"), []uint64{64 << 20})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	first := open(t, "soft:1,memory=64MiB", Options{Ledger: l, Slot: 0})
	second := open(t, "soft:1,memory=64MiB", Options{Ledger: l, Slot: 1})
	a, b := newTestContext(t, first, 0).Memory(), newTestContext(t, second, 0).Memory()
	must(t, a.Map(chunks(0, 0, 20)))
	if free, total := b.Usage(); free != 24<<20 || total != 64<<20 {
		t.Errorf("usage in second worker: %d of %d free, want 24 of 64 MiB", free, total)
	}
	if err := b.Map(chunks(0, 0, 13)); !errors.Is(err, abi.OutOfMemory) {
		t.Errorf("map more than is free: got %v, want OUT_OF_MEMORY", err)
	}
	must(t, b.Map(chunks(0, 0, 12)))
	must(t, first.Close())
	if used, _ := l.Usage(0); used != 24<<20 {
		t.Errorf("%d bytes in use after the first worker closed, want %d", used, 24<<20)
	}
	must(t, second.Close())
	if used, _ := l.Usage(0); used != 0 {
		t.Errorf("%d bytes in use after both workers closed, want 0", used)
	}
	if _, err := Open("soft:2", Options{Ledger: l}); !errors.Is(err, abi.InvalidValue) {
		t.Errorf("open more devices than the ledger has: got %v, want INVALID_VALUE", err)
	}
}

// TestDeviceMemoryIsShared checks that contexts of a device share its memory and addresses, that
// devices see each other's memory, and that closing a context unmaps what it mapped.
func TestDeviceMemoryIsShared(t *testing.T) {
	b := open(t, "soft:2", Options{})
	defer b.Close()
	first, second, peer := newTestContext(t, b, 0), newTestContext(t, b, 0), newTestContext(t, b, 1)
	r, far := chunks(0, 0, 2), chunks(1, 0, 1)
	must(t, first.Memory().Map(r))
	must(t, peer.Memory().Map(far))
	_, err := first.Memory().WriteAt([]byte("hello"), int64(r.Address))
	must(t, err)
	s := newTestStream(t, second)
	must(t, s.Submit(gpu.Copy{
		Dst:    gpu.Place{Address: far.Address},
		Src:    gpu.Place{Address: r.Address},
		Extent: [3]uint64{5, 1, 1},
	}))
	must(t, s.Synchronize())
	got := make([]byte, 5)
	_, err = peer.Memory().ReadAt(got, int64(far.Address))
	must(t, err)
	if string(got) != "hello" {
		t.Errorf("peer memory: got %q, want %q", got, "hello")
	}
	arena := make([]byte, 4096)
	must(t, first.Memory().MapHost(0x6000_0000_0000, arena))
	must(t, second.Memory().MapHost(0x6000_0000_0000, arena))
	if err := second.Memory().MapHost(0x6000_0000_0000, make([]byte, 4096)); !errors.Is(err, abi.AlreadyMapped) {
		t.Errorf("map other host memory at the same address: got %v, want ALREADY_MAPPED", err)
	}
	must(t, first.Close())
	if _, err := second.Memory().ReadAt(got, int64(r.Address)); !errors.Is(err, abi.IllegalAddress) {
		t.Errorf("read memory of a closed context: got %v, want ILLEGAL_ADDRESS", err)
	}
	if _, err := second.Memory().ReadAt(got, 0x6000_0000_0000); err != nil {
		t.Errorf("read host memory that another context still maps: %v", err)
	}
	other := gpu.ContextOptions{Window: gpu.Range{Address: 0x5000_0000_0000, Bytes: 1 << 40}}
	if _, err := b.NewContext(0, other); !errors.Is(err, abi.InvalidValue) {
		t.Errorf("create context with another window: got %v, want INVALID_VALUE", err)
	}
}

// TestFaultLog checks that only the first fault is logged, with device, code and address.
func TestFaultLog(t *testing.T) {
	var log bytes.Buffer
	b, err := Open("soft:1", Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	c := newTestContext(t, b, 0)
	s := newTestStream(t, c)
	for range 3 {
		_ = s.Submit(gpu.Fill{Address: 0x3000_0bad_0000, PatternBytes: 1, Columns: 1, Rows: 1})
	}
	if err := s.Synchronize(); !errors.Is(err, abi.IllegalAddress) {
		t.Errorf("synchronize after a fault: got %v, want ILLEGAL_ADDRESS", err)
	}
	must(t, b.Close())
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "0x30000bad0000") ||
		!strings.Contains(text, "ILLEGAL_ADDRESS") {
		t.Errorf("log: got %q, want one line with address and code", text)
	}
}

// TestDeterministicOrder checks that work of several streams runs in submission order.
func TestDeterministicOrder(t *testing.T) {
	b := open(t, "soft:1,deterministic", Options{})
	defer b.Close()
	c := newTestContext(t, b, 0)
	streams := []gpu.Stream{newTestStream(t, c), newTestStream(t, c), newTestStream(t, c)}
	var seen []int
	for i := range 300 {
		must(t, streams[i*7%3].Submit(gpu.Call{Func: func() { seen = append(seen, i) }}))
	}
	must(t, c.Synchronize())
	for i, value := range seen {
		if i != value {
			t.Fatalf("work item at position %d: got %d", i, value)
		}
	}
	if len(seen) != 300 {
		t.Errorf("got %d work items, want 300", len(seen))
	}
}

// TestCopiesBesideMapping runs pitched copies, which hold spans, while another chunk is mapped and
// unmapped and dirty bits are cleared. The source chunks are absent at first.
func TestCopiesBesideMapping(t *testing.T) {
	b := open(t, "soft:1", Options{})
	defer b.Close()
	c := newTestContext(t, b, 0)
	m := c.Memory().(*Memory)
	fill := func(address uint64, chunk []byte) error {
		for i := range chunk {
			chunk[i] = byte(address/gpu.ChunkBytes + uint64(i))
		}
		return nil
	}
	src, dst, other := chunks(0, 0, 8), chunks(0, 8, 8), chunks(0, 16, 1)
	s := newTestStream(t, c)
	for range 20 {
		must(t, m.MapAbsent(src, fill))
		must(t, m.Map(dst))
		const pitch, width = 4096, 3000
		must(t, s.Submit(gpu.Copy{
			Dst:    gpu.Place{Address: dst.Address, RowPitch: pitch},
			Src:    gpu.Place{Address: src.Address, RowPitch: pitch},
			Extent: [3]uint64{width, src.Bytes / pitch, 1},
		}))
		for errors.Is(s.Query(), abi.NotReady) {
			must(t, m.Map(other))
			must(t, m.Unmap(other))
			m.ClearDirty(dst)
		}
		must(t, s.Synchronize())
		want, got := make([]byte, gpu.ChunkBytes), make([]byte, gpu.ChunkBytes)
		for chunk := range src.Bytes / gpu.ChunkBytes {
			must(t, fill(src.Address+chunk*gpu.ChunkBytes, want))
			_, err := m.ReadAt(got, int64(dst.Address+chunk*gpu.ChunkBytes))
			must(t, err)
			for row := 0; row < len(want); row += pitch {
				if !bytes.Equal(got[row:row+width], want[row:row+width]) {
					t.Fatalf("chunk %d, row at offset %d: copy differs from source", chunk, row)
				}
			}
		}
		must(t, m.Unmap(src))
		must(t, m.Unmap(dst))
	}
}
