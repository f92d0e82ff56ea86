package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// specs are a GPU for each way to detect changes.
var specs = map[string]string{
	"marks":   "soft:1,memory=1GiB",
	"digests": "soft:1,memory=1GiB,marks=off",
}

// onEach runs a test with each way to detect changes, with the interfaces of a real GPU, and with
// memory that can only be read.
func onEach(t *testing.T, chunks int, run func(t *testing.T, m *machine)) {
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) { run(t, openMachine(t, spec, chunks)) })
	}
	t.Run("remote", func(t *testing.T) { run(t, openRemote(t, chunks, remoteOptions{})) })
	t.Run("plain", func(t *testing.T) {
		m := openMachine(t, specs["marks"], chunks)
		m.memory = plain{m.memory}
		run(t, m)
	})
}

// plain hides all optional interfaces of a memory.
type plain struct{ gpu.Memory }

// take takes a checkpoint while nothing runs, and checks it.
func (m *machine) take(c *Capture, target *shelf, options Options) ([]image.Entry, Stats) {
	m.t.Helper()
	s, err := c.Begin(target, options)
	must(m.t, err)
	must(m.t, s.Precopy(context.Background()))
	must(m.t, s.Cut(context.Background()))
	want := m.contents()
	entries, err := s.Finish(context.Background())
	must(m.t, err)
	m.same("image", m.saved(target, entries), want)
	return entries, s.Stats()
}

// exact takes a checkpoint while kernels store; stop ends kernels that are already storing. The
// image must be the memory at the cut.
func (m *machine) exact(c *Capture, target *shelf, options Options, stop func()) Stats {
	m.t.Helper()
	s, err := c.Begin(target, options)
	must(m.t, err)
	must(m.t, s.Precopy(m.t.Context()))
	stop()
	must(m.t, s.Cut(m.t.Context()))
	want := m.contents()
	stop = m.scribble(3)
	entries, err := s.Finish(m.t.Context())
	must(m.t, err)
	stop()
	m.same("image", m.saved(target, entries), want)
	return s.Stats()
}

// TestCutIsExact: kernels of several streams store at random into device memory and the arena,
// before, during and after a checkpoint. The image must be the memory at the cut, byte for byte.
func TestCutIsExact(t *testing.T) {
	onEach(t, 9, func(t *testing.T, m *machine) {
		m.grow(1)
		m.grow(16)
		m.pin(4096, 12288)
		m.pin(1<<20, 5<<20)
		target := newShelf()
		c := New(m.sources)
		options := Options{BudgetBytes: 24 << 20, Workers: 2}
		for round := range rounds.Of(2, 6) {
			stop := m.scribble(3)
			for offset := range len(m.arena.Memory) / 4096 { // and the program's CPU
				if offset%7 == round {
					m.arena.Memory[offset*4096+offset] = byte(round + 1)
				}
			}
			if stats := m.exact(c, target, options, stop); stats.BufferBytes > options.BudgetBytes ||
				stats.CutBytes == 0 {
				t.Errorf("round %d: %+v", round, stats)
			}
		}
	})
}

// TestMappingsChange: ranges are mapped and unmapped between and during checkpoints. A range that
// is mapped again holds zeros.
func TestMappingsChange(t *testing.T) {
	onEach(t, 6, func(t *testing.T, m *machine) {
		target := newShelf()
		c := New(m.sources)
		must(t, fillAll(m, 1))
		m.take(c, target, Options{})
		again := m.ranges[0]
		must(t, m.memory.Unmap(again))
		must(t, m.memory.Map(again))
		m.take(c, target, Options{})

		must(t, fillAll(m, 2))
		s, err := c.Begin(target, Options{BudgetBytes: 8 << 20})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		must(t, m.memory.Unmap(again))
		m.ranges = nil
		m.grow(3)
		must(t, s.Cut(t.Context()))
		want := m.contents()
		must(t, fillAll(m, 3))
		entries, err := s.Finish(t.Context())
		must(t, err)
		m.same("image", m.saved(target, entries), want)
	})
}

// fillAll gives every chunk a different content.
func fillAll(m *machine, seed byte) error {
	content := make([]byte, gpu.ChunkBytes)
	for _, r := range m.ranges {
		for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
			n := copy(content, fmt.Appendf(nil, "%d %#x ", seed, at))
			for n < len(content) {
				n += copy(content[n:], content[:n])
			}
			if _, err := m.memory.WriteAt(content, int64(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestIncremental: unchanged memory is neither copied nor written again.
func TestIncremental(t *testing.T) {
	const chunks = 50
	onEach(t, chunks, func(t *testing.T, m *machine) {
		m.pin(0, 4<<20)
		target := newShelf()
		c := New(m.sources)
		must(t, fillAll(m, 1))
		_, first := m.take(c, target, Options{})
		if first.WrittenBytes != chunks*gpu.ChunkBytes || target.bytes != first.WrittenBytes || first.SharedBytes != 0 {
			t.Fatalf("first: %+v, %d bytes on the shelf", first, target.bytes)
		}
		for _, chunk := range []uint64{3, 40} {
			must(t, write(m, m.ranges[0].Address+chunk*gpu.ChunkBytes+chunk, byte(chunk)))
		}
		_, second := m.take(c, target, Options{})
		if second.WrittenBytes != 2*gpu.ChunkBytes {
			t.Errorf("second wrote %d bytes", second.WrittenBytes)
		}
		if second.SharedBytes != (chunks-2)*gpu.ChunkBytes {
			t.Errorf("second shared %d bytes", second.SharedBytes)
		}
		if _, hidden := m.memory.(plain); !hidden && second.CutBytes > 2*gpu.ChunkBytes {
			t.Errorf("second took %d bytes at the cut", second.CutBytes)
		}
		_, third := m.take(c, target, Options{})
		if third.WrittenBytes != 0 || third.CutBytes != 0 || third.CopiedBytes != 0 {
			t.Errorf("nothing changed: %+v", third)
		}
		// Another target has none of it.
		other := newShelf()
		_, fourth := m.take(c, other, Options{})
		if fourth.WrittenBytes != chunks*gpu.ChunkBytes {
			t.Errorf("into another target: %+v", fourth)
		}
	})
}

func write(m *machine, address uint64, b ...byte) error {
	_, err := m.memory.WriteAt(b, int64(address))
	return err
}

// counting is a memory that counts the bytes read from it.
type counting struct {
	gpu.Memory
	gpu.Tracker
	read uint64
}

func (c *counting) ReadAt(p []byte, address int64) (int, error) {
	c.read += uint64(len(p))
	return c.Memory.ReadAt(p, address)
}

// TestIncrementalReads: with dirty tracking, unchanged memory is not even read.
func TestIncrementalReads(t *testing.T) {
	m := openMachine(t, specs["marks"], 100)
	counted := &counting{Memory: m.memory, Tracker: m.memory.(gpu.Tracker)}
	c := New(func() []Source { return []Source{{Name: "gpu0", Memory: counted, Ranges: m.ranges}} })
	target := newShelf()
	must(t, fillAll(m, 1))
	for i, want := range []uint64{100, 0, 1} {
		if i == 2 {
			must(t, write(m, m.ranges[0].Address+77*gpu.ChunkBytes, 9))
		}
		counted.read = 0
		s, err := c.Begin(target, Options{Workers: 1})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		must(t, s.Cut(t.Context()))
		_, err = s.Finish(t.Context())
		must(t, err)
		if counted.read != want*gpu.ChunkBytes {
			t.Errorf("checkpoint %d read %d bytes, want %d chunks", i, counted.read, want)
		}
	}
}

// TestBudget: copies never exceed the budget, whatever the amount of dirty memory. The rest is
// written at the cut.
func TestBudget(t *testing.T) {
	const chunks = 32
	onEach(t, chunks, func(t *testing.T, m *machine) {
		for i, budget := range []uint64{2 << 20, 32 << 20, 1, 6 << 20, 1 << 30} {
			if i >= rounds.Of(2, 5) {
				break
			}
			must(t, fillAll(m, byte(budget>>20)))
			target := newShelf()
			s, err := New(m.sources).Begin(target, Options{BudgetBytes: budget, Workers: 4})
			must(t, err)
			must(t, s.Precopy(t.Context()))
			must(t, fillAll(m, byte(budget>>20)+100))
			must(t, s.Cut(t.Context()))
			want := m.contents()
			must(t, fillAll(m, 50))
			entries, err := s.Finish(t.Context())
			must(t, err)
			m.same("image", m.saved(target, entries), want)
			stats, room := s.Stats(), max(budget, image.ChunkBytes)
			if stats.BufferBytes > room || stats.CutBytes != chunks*gpu.ChunkBytes ||
				stats.CutBytes-stats.DirectBytes-stats.DeviceBytes-stats.GuardedBytes > room {
				t.Errorf("budget %d: %+v", budget, stats)
			}
			if fits := budget >= chunks*gpu.ChunkBytes; fits && stats.DirectBytes > 0 {
				t.Errorf("budget %d: %d bytes written at the cut", budget, stats.DirectBytes)
			}
		}
	})
}

func TestDirect(t *testing.T) {
	onEach(t, 20, func(t *testing.T, m *machine) {
		m.pin(8192, 3<<20)
		must(t, fillAll(m, 1))
		target := newShelf()
		s, err := New(m.sources).Begin(target, Options{Direct: true})
		must(t, err)
		must(t, s.Cut(t.Context()))
		want := m.contents()
		s.Hurry()
		entries, err := s.Finish(t.Context())
		must(t, err)
		m.same("image", m.saved(target, entries), want)
		if stats := s.Stats(); stats.BufferBytes > 0 || stats.DirectBytes < 20*gpu.ChunkBytes {
			t.Errorf("%+v", stats)
		}
	})
}

// TestSeed: after a restore the image's content is not written again, even for chunks that are
// still absent.
func TestSeed(t *testing.T) {
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			m := openMachine(t, spec, 8)
			must(t, fillAll(m, 1))
			target := newShelf()
			entries, _ := m.take(New(m.sources), target, Options{})
			chunks := entries[1].Chunks

			restored := openMachine(t, spec, 0)
			restored.ranges = m.ranges
			fills := 0
			must(t, restored.memory.(gpu.LazyMapper).MapAbsent(m.ranges[0], func(address uint64, into []byte) error {
				fills++
				for _, chunk := range chunks {
					if chunk.Address == address {
						copy(into, target.read(t, chunk))
					}
				}
				return nil
			}))
			c := New(restored.sources)
			c.Seed(restored.sources()[0], chunks)
			must(t, write(restored, m.ranges[0].Address+5*gpu.ChunkBytes, 1, 2, 3))
			s, err := c.Begin(target, Options{Workers: 1})
			must(t, err)
			must(t, s.Precopy(t.Context()))
			must(t, s.Cut(t.Context()))
			if _, ok := restored.memory.(gpu.Tracker); ok && fills != 1 {
				t.Errorf("%d chunks loaded", fills)
			}
			want := restored.contents()
			after, err := s.Finish(t.Context())
			must(t, err)
			restored.same("image", restored.saved(target, after), want)
			if stats := s.Stats(); stats.WrittenBytes != gpu.ChunkBytes || stats.SharedBytes != 7*gpu.ChunkBytes {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// TestOrderOfUse: chunks are in the order in which the program used them during the precopy.
func TestOrderOfUse(t *testing.T) {
	m := openMachine(t, specs["marks"], 12)
	must(t, fillAll(m, 1))
	s, err := New(m.sources).Begin(newShelf(), Options{})
	must(t, err)
	must(t, s.Precopy(t.Context()))
	at := func(i uint64) uint64 { return m.ranges[0].Address + i*gpu.ChunkBytes }
	for _, i := range []uint64{7, 2, 9, 2} {
		_, err := m.memory.ReadAt(make([]byte, 4), int64(at(i)))
		must(t, err)
	}
	must(t, write(m, at(4), 1))
	must(t, s.Cut(t.Context()))
	must(t, write(m, at(11), 1))
	entries, err := s.Finish(t.Context())
	must(t, err)
	var got []uint64
	for _, chunk := range entries[1].Chunks {
		got = append(got, (chunk.Address-at(0))/gpu.ChunkBytes)
	}
	want := []uint64{7, 2, 9, 4, 0, 1, 3, 5, 6, 8, 10, 11}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("order %v, want %v", got, want)
		}
	}
}

// TestFailures: after any failure the next checkpoint is complete.
func TestFailures(t *testing.T) {
	full := errors.New("the disk is full")
	onEach(t, 40, func(t *testing.T, m *machine) {
		target := newShelf()
		c := New(m.sources)
		must(t, fillAll(m, 1))

		s, err := c.Begin(target, Options{})
		must(t, err)
		if _, err := c.Begin(target, Options{}); !errors.Is(err, ErrUnderway) {
			t.Errorf("two at once: %v", err)
		}
		target.fail = full
		if err := s.Precopy(t.Context()); !errors.Is(err, full) {
			t.Errorf("precopy: %v", err)
		}
		s.Abort()
		s.Abort()

		target.fail = nil
		s, err = c.Begin(target, Options{BudgetBytes: 8 << 20})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		must(t, fillAll(m, 2))
		target.fail = full
		if err := s.Cut(t.Context()); !errors.Is(err, full) && s.Stats().DeviceBytes+s.Stats().GuardedBytes == 0 {
			t.Errorf("cut: %v", err)
		}
		s.Abort()
		m.nothingAside()

		target.fail = nil
		s, err = c.Begin(target, Options{})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		must(t, fillAll(m, 3))
		must(t, s.Cut(t.Context()))
		target.fail = full
		if _, err := s.Finish(t.Context()); !errors.Is(err, full) {
			t.Errorf("finish: %v", err)
		}
		m.nothingAside()

		target.fail = nil
		ctx, cancel := context.WithCancel(t.Context())
		s, err = c.Begin(target, Options{})
		must(t, err)
		cancel()
		if err := s.Precopy(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		s.Abort()
		m.take(c, target, Options{})
	})
}

var _ io.ReaderAt = (*Host)(nil)

// TestCutAgain: of two cuts the last one counts, and the first leaks no memory.
func TestCutAgain(t *testing.T) {
	onEach(t, 16, func(t *testing.T, m *machine) {
		m.pin(0, 4<<20)
		const budget = 48 << 20
		must(t, fillAll(m, 1))
		target := newShelf()
		s, err := New(m.sources).Begin(target, Options{BudgetBytes: budget})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		for round := range byte(5) {
			for at := byte(0); at < 16; at += round + 1 {
				must(t, write(m, m.ranges[0].Address+uint64(at)*gpu.ChunkBytes+9, at+round))
			}
			m.arena.Memory[1<<20] = round
			must(t, s.Cut(t.Context()))
		}
		want := m.contents()
		must(t, fillAll(m, 7))
		entries, err := s.Finish(t.Context())
		must(t, err)
		m.same("image", m.saved(target, entries), want)
		if stats := s.Stats(); stats.DirectBytes > 0 || stats.BufferBytes > budget {
			t.Errorf("%+v", stats)
		}
	})
}
