package space

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

const base = 0x3000_0000_0000

func newMemory(t *testing.T, chunks uint64) *Memory {
	t.Helper()
	m, err := New(gpu.Range{Address: base, Bytes: chunks * gpu.ChunkBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func chunk(first, count uint64) gpu.Range {
	return gpu.Range{Address: base + first*gpu.ChunkBytes, Bytes: count * gpu.ChunkBytes}
}

func TestMapAndUnmap(t *testing.T) {
	m := newMemory(t, 8)
	if _, err := m.ReadAt(make([]byte, 1), base); !errors.Is(err, abi.IllegalAddress) {
		t.Fatalf("read of unmapped memory: %v", err)
	}
	if err := m.Map(chunk(1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := m.Map(chunk(2, 1)); !errors.Is(err, abi.AlreadyMapped) {
		t.Fatalf("map twice: got %v, want ALREADY_MAPPED", err)
	}
	across := int64(base + 2*gpu.ChunkBytes - 3)
	if n, err := m.WriteAt([]byte("abcdef"), across); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	got := make([]byte, 6)
	if _, err := m.ReadAt(got, across); err != nil || string(got) != "abcdef" {
		t.Fatalf("%q, %v", got, err)
	}
	if n, err := m.WriteAt(got, base+3*gpu.ChunkBytes-2); n != 2 || !errors.Is(err, abi.IllegalAddress) {
		t.Fatalf("write past the end: %d, %v", n, err)
	}
	if err := m.Unmap(chunk(1, 2)); err != nil {
		t.Fatal(err)
	}
	if err := m.Unmap(chunk(1, 1)); !errors.Is(err, abi.NotMapped) {
		t.Fatalf("unmap twice: got %v, want NOT_MAPPED", err)
	}
	if err := m.Map(chunk(1, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReadAt(got, across); err != nil || !bytes.Equal(got, make([]byte, 6)) {
		t.Fatalf("read after mapping again: got %q, %v, want zeros", got, err)
	}
	for _, r := range []gpu.Range{{Address: base + 1, Bytes: gpu.ChunkBytes}, chunk(7, 2), {Address: base}} {
		if err := m.Map(r); !errors.Is(err, abi.InvalidValue) {
			t.Errorf("map %v: %v", r, err)
		}
	}
}

func TestDirtyBits(t *testing.T) {
	m := newMemory(t, 8)
	if err := m.Map(chunk(0, 8)); err != nil {
		t.Fatal(err)
	}
	if got := m.Dirty(chunk(0, 8)); got[0] != 0 {
		t.Fatalf("dirty bits of fresh memory: got %b, want 0", got[0])
	}
	_, _ = m.WriteAt(make([]byte, gpu.ChunkBytes), base+gpu.ChunkBytes/2)
	_ = m.Fill(base+5*gpu.ChunkBytes, 7, 4, 1)
	_, _ = m.ReadAt(make([]byte, 1), base+7*gpu.ChunkBytes)
	if got := m.Dirty(chunk(0, 8)); got[0] != 0b100011 {
		t.Fatalf("dirty bits after writes: got %b, want 100011", got[0])
	}
	m.ClearDirty(chunk(1, 7))
	if got := m.Dirty(chunk(0, 8)); got[0] != 1 {
		t.Fatalf("dirty bits after clearing: got %b, want 1", got[0])
	}
}

func TestCopyOverlapping(t *testing.T) {
	m := newMemory(t, 6)
	if err := m.Map(chunk(0, 6)); err != nil {
		t.Fatal(err)
	}
	source := make([]byte, 4*gpu.ChunkBytes)
	for i := range source {
		source[i] = byte(i ^ i>>8 ^ i>>16)
	}
	for _, shift := range []uint64{1, 4096, gpu.ChunkBytes, gpu.ChunkBytes + 13} {
		for _, forward := range []bool{true, false} {
			from, to := uint64(base), base+shift
			if !forward {
				from, to = to, from
			}
			if _, err := m.WriteAt(source, int64(from)); err != nil {
				t.Fatal(err)
			}
			if err := m.Copy(to, from, uint64(len(source))); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(source))
			if _, err := m.ReadAt(got, int64(to)); err != nil || !bytes.Equal(got, source) {
				t.Fatalf("shift %d forward %v: copy differs, %v", shift, forward, err)
			}
		}
	}
}

func TestHostRegions(t *testing.T) {
	m, other := newMemory(t, 2), make([]byte, 100)
	const at = 0x6000_0000_1003
	if err := m.MapHost(at, other); err != nil {
		t.Fatal(err)
	}
	if err := m.MapHost(at+99, make([]byte, 5)); !errors.Is(err, abi.AlreadyMapped) {
		t.Fatalf("map overlapping host memory: got %v, want ALREADY_MAPPED", err)
	}
	if err := m.MapHost(at+100, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.WriteAt([]byte("seam"), at+98); err != nil || string(other[98:]) != "se" {
		t.Fatal(err)
	}
	if err := m.UnmapHost(at); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReadAt(make([]byte, 1), at+99); !errors.Is(err, abi.IllegalAddress) {
		t.Fatalf("read unmapped host memory: got %v, want ILLEGAL_ADDRESS", err)
	}
}

func TestPeers(t *testing.T) {
	m := newMemory(t, 2)
	peer, err := New(gpu.Range{Address: base + 1<<40, Bytes: 2 * gpu.ChunkBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	r := gpu.Range{Address: base + 1<<40, Bytes: gpu.ChunkBytes}
	if err := peer.Map(r); err != nil {
		t.Fatal(err)
	}
	m.AddPeer(peer)
	if _, err := m.WriteAt([]byte{1}, int64(r.Address)); err != nil {
		t.Fatal(err)
	}
	if peer.Dirty(r)[0] != 1 {
		t.Error("write through a peer does not make the chunk dirty")
	}
	m.RemovePeer(peer)
	if _, err := m.WriteAt([]byte{1}, int64(r.Address)); !errors.Is(err, abi.IllegalAddress) {
		t.Errorf("write through a removed peer: got %v, want ILLEGAL_ADDRESS", err)
	}
}

func TestAbsentChunksAreFilledOnce(t *testing.T) {
	m := newMemory(t, 4)
	var fills [4]atomic.Int32
	hold := make(chan struct{})
	err := m.MapAbsent(chunk(0, 4), func(address uint64, memory []byte) error {
		i := (address - base) / gpu.ChunkBytes
		fills[i].Add(1)
		switch i {
		case 0:
			<-hold
		case 3:
			return errors.New("image store unavailable")
		}
		memory[5] = byte(10 + i)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var touches sync.WaitGroup
	read := func(i int) (byte, error) {
		var b [1]byte
		_, err := m.ReadAt(b[:], int64(base+i*gpu.ChunkBytes+5))
		return b[0], err
	}
	for range 4 {
		touches.Go(func() {
			if b, err := read(0); b != 10 || err != nil {
				t.Errorf("chunk 0: %d, %v", b, err)
			}
		})
	}
	// Chunk 1 does not wait for chunk 0. Neither does ClearDirty, which only waits for readers that
	// hold spans.
	if b, err := read(1); b != 11 || err != nil {
		t.Fatalf("chunk 1: %d, %v", b, err)
	}
	_, _ = m.WriteAt([]byte{1}, base+gpu.ChunkBytes)
	m.ClearDirty(chunk(1, 1))
	close(hold)
	touches.Wait()
	for range 2 {
		if _, err := read(3); err == nil {
			t.Error("read of a chunk whose fill failed: got no error")
		}
	}
	for i, want := range []int32{1, 1, 0, 1} {
		if got := fills[i].Load(); got != want {
			t.Errorf("chunk %d filled %d times, want %d", i, got, want)
		}
	}
	if got := m.Dirty(chunk(0, 4)); got[0] != 0 {
		t.Errorf("dirty bits after fills: got %b, want 0", got[0])
	}
	if err := m.Unmap(chunk(0, 4)); err != nil {
		t.Error(err)
	}
}

// TestClearWaitsForStores checks the guarantee of ClearDirty: a store through a kept
// span is either in memory when ClearDirty returns, or makes the chunk dirty again.
func TestClearWaitsForStores(t *testing.T) {
	m := newMemory(t, 1)
	if err := m.Map(chunk(0, 1)); err != nil {
		t.Fatal(err)
	}
	var word atomic.Uint64 // stands for memory that is stored to through the span
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		reader := NewReader()
		defer reader.Release()
		v := reader.Enter()
		defer reader.Exit()
		held := uint64(0)
		for n := uint64(1); !stop.Load(); n++ {
			if n%64 == 0 {
				v = reader.Tick()
			}
			if held != v+1 {
				if _, err := m.Find(reader, base, true); err != nil {
					t.Error(err)
					return
				}
				held = v + 1
			}
			word.Store(n)
		}
	})
	for range 300 {
		m.ClearDirty(chunk(0, 1))
		copied := word.Load()
		// All changes from here on must be dirty by the time they are visible.
		for spins := 0; spins < 100; spins++ {
			if word.Load() != copied {
				if m.Dirty(chunk(0, 1))[0] == 0 {
					t.Fatal("store after ClearWritten: chunk is not dirty")
				}
				break
			}
		}
	}
	stop.Store(true)
	writer.Wait()
}

func TestFindConcurrently(t *testing.T) {
	m := newMemory(t, 4)
	if err := m.Map(chunk(0, 2)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			buffer := make([]byte, 100)
			for n := range 200 {
				at := int64(base + i*1000)
				if i == 3 {
					r := chunk(2, 1)
					if err := m.Map(r); err != nil {
						t.Error(err)
					}
					_ = m.Fill(r.Address, uint32(n), 1, 4096)
					if err := m.Unmap(r); err != nil {
						t.Error(err)
					}
					continue
				}
				if _, err := m.WriteAt(buffer, at); err != nil {
					t.Error(err)
				}
				if _, err := m.ReadAt(buffer, at); err != nil {
					t.Error(err)
				}
				m.ClearDirty(chunk(uint64(i%2), 1))
			}
		})
	}
	all.Wait()
}

// TestHeldSpanBlocksNothing checks that a span that is never released, as in a copy from a
// stopped program, keeps its chunk dirty and blocks neither ClearDirty nor RecordAccesses.
func TestHeldSpanBlocksNothing(t *testing.T) {
	m := newMemory(t, 2)
	if err := m.Map(chunk(0, 2)); err != nil {
		t.Fatal(err)
	}
	reader := NewReader()
	defer reader.Release()
	reader.Enter()
	if _, err := m.Find(reader, base, true); err != nil {
		t.Fatal(err)
	}
	m.RecordAccesses(true)
	if cleared := m.ClearDirty(chunk(0, 2)); cleared[0] != 0 {
		t.Errorf("cleared while a span is in use: got %b, want 0", cleared[0])
	}
	if got := m.Dirty(chunk(0, 2)); got[0] != 1 {
		t.Errorf("dirty bits: got %b, want 1", got[0])
	}
	reader.Exit()
	if cleared := m.ClearDirty(chunk(0, 2)); cleared[0] != 1 {
		t.Errorf("cleared after the span was released: got %b, want 1", cleared[0])
	}
}

// TestWideWindow checks that the cost of a window depends on the memory in it, not on its size, at
// both ends of the window.
func TestWideWindow(t *testing.T) {
	const chunks = gpu.MaxWindowBytes / gpu.ChunkBytes
	m := newMemory(t, chunks)
	for _, first := range []uint64{0, 7*partChunks - 1, chunks - 2} { // the second crosses two parts of the table
		r, at := chunk(first, 2), int64(base+(first+1)*gpu.ChunkBytes-1)
		if _, err := m.ReadAt(make([]byte, 1), at); !errors.Is(err, abi.IllegalAddress) {
			t.Errorf("read of unmapped memory: %v", err)
		}
		if err := m.Map(r); err != nil {
			t.Fatal(err)
		}
		m.RecordAccesses(true)
		if _, err := m.WriteAt([]byte{1, 2}, at); err != nil {
			t.Error(err)
		}
		if got := m.Accesses(); len(got) != 2 || got[0] != r.Address || got[1] != r.Address+gpu.ChunkBytes {
			t.Errorf("touches: got %#x", got)
		}
		m.RecordAccesses(false)
		if got := m.Dirty(chunk(0, chunks)); got[first/64]>>(first%64)&1 == 0 ||
			got[(first+1)/64]>>((first+1)%64)&1 == 0 {
			t.Errorf("chunks %d and %d are not dirty", first, first+1)
		}
		if err := m.Unmap(r); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	for i := range m.states {
		if m.states[i].Load() != nil {
			made++
		}
	}
	if made != 4 {
		t.Errorf("got %d parts of the table for 6 chunks, want 4", made)
	}
}
