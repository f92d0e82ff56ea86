package space

import (
	"sort"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Span is a run of addresses that may be accessed directly: Memory[i] is address Address+i.
type Span struct {
	Address uint64
	Memory  []byte
}

// reachChunks bounds how far Find looks for neighbours in the same state, in each direction.
const reachChunks = 64

// Find returns a span around address for reading or, with write, for writing; the chunk of address
// is marked written then. It returns abi.IllegalAddress where nothing is mapped. reader must have
// entered; while Find waits for an absent chunk it exits and enters again, so afterwards older
// spans may be stale: compare Reader.Version.
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

// findInWindow looks into the window of home, and where that has nothing, among the aliases.
func (m *Memory) findInWindow(home *Memory, reader *Reader, address uint64, write bool) (Span, error) {
	if home.states.load((address-home.window.Address)/gpu.ChunkBytes) == unmapped {
		return m.findAlias(reader, address, write)
	}
	return home.findChunk(reader, address, write)
}

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
		case write && state < dirty:
			m.states.at(i).CompareAndSwap(state, dirty)
		default:
			return m.spanAround(i, write, m.recordTouch(reader, i)), nil
		}
	}
}

// spanAround widens chunk i to its neighbours that allow the same access. While touches are
// recorded, only neighbours that were touched already are taken in, so that the first touch of each
// comes here.
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
