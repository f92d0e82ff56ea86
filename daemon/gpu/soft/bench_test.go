package soft

import (
	"fmt"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
)

func benchContext(b *testing.B) (gpu.Context, gpu.Stream) {
	b.Helper()
	backend := open(b, "soft:1", Options{})
	b.Cleanup(func() { _ = backend.Close() })
	c, err := backend.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := c.NewStream(gpu.StreamOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return c, s
}

const emptyPTX = ".version 7.0\n.target sm_70\n.address_size 64\n" +
	".visible .entry empty(.param .align 8 .b8 arguments[64]) { ret; }"

// BenchmarkSubmit measures the cost of queueing work.
func BenchmarkSubmit(b *testing.B) {
	c, s := benchContext(b)
	e, err := c.NewEvent(gpu.EventOptions{})
	if err != nil {
		b.Fatal(err)
	}
	m, err := c.LoadModule(gpu.Image{PTX: []string{emptyPTX}}, gpu.LoadOptions{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := m.Function("empty")
	if err != nil {
		b.Fatal(err)
	}
	launch := gpu.Launch{Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: make([]byte, 64)}
	for name, work := range map[string]gpu.Work{
		"nothing": gpu.Empty{}, "record": gpu.Record{Event: e}, "launch": launch,
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if err := s.Submit(work); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			_ = s.Synchronize()
		})
	}
}

// BenchmarkRoundTrip submits work and waits for it.
func BenchmarkRoundTrip(b *testing.B) {
	_, s := benchContext(b)
	for range b.N {
		_ = s.Submit(gpu.Empty{})
		_ = s.Synchronize()
	}
}

// plain is host memory whose accesses cost only the copy.
type plain []byte

func (p plain) ReadAt(out []byte, at int64) (int, error) { return copy(out, p[at:]), nil }
func (p plain) WriteAt(in []byte, at int64) (int, error) { return copy(p[at:], in), nil }

// BenchmarkCopy reports copy bandwidth relative to copy() of the same size. The two alternate, on
// separate buffers, so that neither finds its data in the cache. copy() runs on one core and small
// pages; device memory has huge pages, and large device copies run on all cores.
func BenchmarkCopy(b *testing.B) {
	c, s := benchContext(b)
	for _, size := range []uint64{64 << 10, 1 << 20, 16 << 20, 64 << 20} {
		base := gpu.DefaultWindow(0, 1).Address
		span := (size + gpu.ChunkBytes - 1) &^ (gpu.ChunkBytes - 1)
		r := gpu.Range{Address: base, Bytes: 2 * span}
		if err := c.Memory().Map(r); err != nil {
			b.Fatal(err)
		}
		host, source, target := make(plain, size), make(plain, size), make(plain, size)
		// Write every page first: memory never written reads as one shared zero page, which stays in the
		// cache.
		touch := gpu.Fill{Address: base, Pattern: 1, PatternBytes: 4, Columns: r.Bytes / 4, Rows: 1}
		if err := s.Submit(touch); err != nil {
			b.Fatal(err)
		}
		if err := s.Synchronize(); err != nil {
			b.Fatal(err)
		}
		for i := range host {
			host[i], source[i], target[i] = 1, 2, 3
		}
		onDevice, other, inProgram := gpu.Place{Address: base}, gpu.Place{Address: base + span}, gpu.Place{Host: host}
		for name, work := range map[string]gpu.Copy{
			"device-device":  {Dst: other, Src: onDevice},
			"device-program": {Dst: inProgram, Src: onDevice},
			"program-device": {Dst: onDevice, Src: inProgram},
		} {
			work.Extent = [3]uint64{size, 1, 1}
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				var ours, memmove time.Duration
				for range b.N {
					began := time.Now()
					_ = s.Submit(work)
					_ = s.Synchronize()
					middle := time.Now()
					copy(target, source)
					ours += middle.Sub(began)
					memmove += time.Since(middle)
				}
				b.ReportMetric(float64(memmove)/float64(ours), "of-memmove")
			})
		}
		if err := c.Memory().Unmap(r); err != nil {
			b.Fatal(err)
		}
	}
}
