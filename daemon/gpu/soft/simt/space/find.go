package space

import (
	"sort"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Span is a range of addresses that may be accessed directly: Memory[i] is at address Address+i.
type Span struct {
	Address uint64
	Memory  []byte
}

// reachChunks is how many neighbours Find adds to a span in each direction.
const reachChunks = 64

// Find returns a span around address for reading or, with write, for writing, which makes the chunk
// dirty. It returns abi.IllegalAddress if nothing is mapped. reader must have entered. While Find
// waits for an absent or a guarded chunk, it exits and enters again, so older spans may be stale
// afterwards: compare Reader.Version.
func (m *Memory) Find(reader *Reader, address uint64, write bool) (Span, error) {
	if address-m.window.Address < m.window.Bytes {
		return m.findInWindow(m, reader, address, write)
	}
	for _, peer := range *m.peers.Load() {
		if address-peer.window.Address < peer.window.Bytes {
			return m.findInWindow(peer, reader, address, write)
		}
	}
	regions := *m.hosts.Load()
	at := sort.Search(len(regions), func(i int) bool { return regions[i].End() > address })
	if at < len(regions) && regions[at].Address <= address {
		return Span{regions[at].Address, regions[at].memory}, nil
	}
	return m.findAlias(reader, address, write)
}

// findInWindow looks up a chunk in the window of home, or an alias if the chunk is not mapped.
func (m *Memory) findInWindow(home *Memory, reader *Reader, address uint64, write bool) (Span, error) {
	if home.states.load((address-home.window.Address)/gpu.ChunkBytes) == unmapped {
		return m.findAlias(reader, address, write)
	}
	return home.findChunk(reader, address, write)
}

// findChunk looks up a chunk of this window and fills it if it is absent.
func (m *Memory) findChunk(reader *Reader, address uint64, write bool) (Span, error) {
	i := (address - m.window.Address) / gpu.ChunkBytes
	for {
		switch state := m.states.load(i); {
		case state == unmapped:
			return Span{}, abi.IllegalAddress
		case state == absent:
			reader.Exit()
			err := m.fillChunk(i)
			reader.Enter()
			if err != nil {
				return Span{}, err
			}
		case write && state == guarded:
			reader.Exit()
			m.saveChunk(i)
			reader.Enter()
		case write && state < dirty:
			m.states.at(i).CompareAndSwap(state, dirty)
		default:
			return m.spanAround(i, write, m.recordTouch(reader, i)), nil
		}
	}
}

// spanAround extends chunk i by its neighbours that allow the same access. While touches are
// recorded, it adds only neighbours that are recorded already, so that the first access to each
// chunk is recorded.
func (m *Memory) spanAround(i uint64, write bool, touches *touchLog) Span {
	need := fresh
	if write {
		need = dirty
	}
	first, end := i, i+1
	for first > 0 && i-first < reachChunks && m.states.load(first-1) >= need && touches.has(first-1) {
		first--
	}
	for end < m.window.Bytes/gpu.ChunkBytes && end-i < reachChunks && m.states.load(end) >= need && touches.has(end) {
		end++
	}
	return Span{m.window.Address + first*gpu.ChunkBytes, m.data[first*gpu.ChunkBytes : end*gpu.ChunkBytes]}
}
