package space

import (
	"fmt"
	"sort"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// hostRegion is host memory at its address in the program.
type hostRegion struct {
	gpu.Range
	memory []byte
}

// MapHost maps host memory at address. The range need not be whole chunks.
func (m *Memory) MapHost(address uint64, memory []byte) error {
	r := gpu.Range{Address: address, Bytes: uint64(len(memory))}
	if r.Bytes == 0 || r.Address+r.Bytes < r.Address || overlapsReserved(r) || overlap(r, m.window) {
		return fmt.Errorf("map host memory at %#x+%#x: %w", address, r.Bytes, abi.InvalidValue)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.hosts.Load()
	at := sort.Search(len(old), func(i int) bool { return old[i].Address >= address })
	if at < len(old) && overlap(old[at].Range, r) || at > 0 && overlap(old[at-1].Range, r) {
		return fmt.Errorf("map host memory at %#x+%#x: %w", address, r.Bytes, abi.AlreadyMapped)
	}
	regions := make([]hostRegion, 0, len(old)+1)
	regions = append(regions, old[:at]...)
	regions = append(regions, hostRegion{r, memory})
	regions = append(regions, old[at:]...)
	m.hosts.Store(&regions)
	return nil
}

// UnmapHost undoes one MapHost. It returns when no access is in flight.
func (m *Memory) UnmapHost(address uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.hosts.Load()
	for i, region := range old {
		if region.Address != address {
			continue
		}
		regions := append(append(make([]hostRegion, 0, len(old)), old[:i]...), old[i+1:]...)
		m.hosts.Store(&regions)
		invalidateSpans()
		return nil
	}
	return fmt.Errorf("unmap host memory at %#x: %w", address, abi.NotMapped)
}

// AddPeer maps another memory's window here.
func (m *Memory) AddPeer(other *Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	peers := append([]*Memory{other}, *m.peers.Load()...)
	m.peers.Store(&peers)
}

// RemovePeer undoes AddPeer.
func (m *Memory) RemovePeer(other *Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var peers []*Memory
	for _, peer := range *m.peers.Load() {
		if peer != other {
			peers = append(peers, peer)
		}
	}
	m.peers.Store(&peers)
	invalidateSpans()
}

func overlap(a, b gpu.Range) bool { return a.Address < b.End() && b.Address < a.End() }
