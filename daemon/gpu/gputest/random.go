package gputest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// model is a random program: buffers on the device, and their expected content.
type model struct {
	*bench
	random  *rand.Rand
	streams []gpu.Stream
	// touched[i] is recorded after the latest work on buffer i, in stream[i].
	touched []gpu.Event
	stream  []int
	address []uint64
	want    [][]byte
}

const modelBufferBytes = 10_000

// testRandomPrograms runs work on random buffers in random streams. Streams that use the same
// buffer are ordered only by events. It compares with the same work done sequentially on the host.
func testRandomPrograms(t *testing.T, b *bench) {
	for seed := range uint64(4) {
		m := &model{bench: b, random: rand.New(rand.NewPCG(seed, 7))}
		for range 5 {
			m.streams = append(m.streams, b.newStream())
		}
		base := b.alloc(8 * modelBufferBytes)
		for i := range 8 {
			m.touched = append(m.touched, b.newEvent(false))
			m.stream = append(m.stream, 0)
			m.address = append(m.address, base+uint64(i)*modelBufferBytes)
			m.want = append(m.want, noise(seed*8+uint64(i), modelBufferBytes))
			b.write(m.address[i], m.want[i])
		}
		scale := b.kernel("scale")
		for range 1000 {
			m.step(scale)
		}
		b.must(b.context.Synchronize())
		for i, want := range m.want {
			b.same(fmt.Sprintf("seed %d, buffer %d", seed, i), b.read(m.address[i], modelBufferBytes), want)
		}
		if t.Failed() {
			return
		}
	}
}

// step does one random operation on one or two buffers.
func (m *model) step(scale gpu.Function) {
	m.t.Helper()
	dst, src, s := m.random.IntN(len(m.want)), m.random.IntN(len(m.want)), m.random.IntN(len(m.streams))
	to, from := m.want[dst], m.want[src]
	n := 4 * (1 + m.random.IntN(modelBufferBytes/4/2))
	at := 4 * m.random.IntN((modelBufferBytes-n)/4+1)
	var work gpu.Work
	switch m.random.IntN(4) {
	case 0:
		value := m.random.Uint32()
		work = gpu.Fill{
			Address:      m.address[dst] + uint64(at),
			Pattern:      value,
			PatternBytes: 4,
			Columns:      uint64(n / 4),
			Rows:         1,
		}
		for i := at; i < at+n; i += 4 {
			copy(to[i:], words(value))
		}
	case 1:
		work = linear(device(m.address[dst]+uint64(at)), device(m.address[src]), n)
		copy(to[at:at+n], from)
	case 2:
		data := noise(m.random.Uint64(), n)
		work = linear(device(m.address[dst]+uint64(at)), program(data, 0), n)
		copy(to[at:], data)
	case 3:
		if dst == src {
			return // the kernel's threads would race
		}
		work = launch(
			scale,
			uint32(n/4+63)/64,
			64,
			m.address[dst]+uint64(at),
			m.address[src],
			uint32(n/4),
			uint8(1),
			0.0,
		)
		scaleWords(to[at:at+n], from)
	}
	for _, i := range []int{dst, src} {
		if m.stream[i] != s {
			m.submit(m.streams[s], gpu.Await{Event: m.touched[i]})
		}
	}
	m.submit(m.streams[s], work)
	for _, i := range []int{dst, src} {
		m.stream[i] = s
		m.submit(m.streams[s], gpu.Record{Event: m.touched[i]})
	}
}

// scaleWords computes the kernel scale with k = 1 and bias = 0: every word times three.
func scaleWords(to, from []byte) {
	for i := 0; i < len(to); i += 4 {
		word := uint32(from[i]) | uint32(from[i+1])<<8 | uint32(from[i+2])<<16 | uint32(from[i+3])<<24
		copy(to[i:], words(word*3))
	}
}
