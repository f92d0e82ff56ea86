package space

import (
	"fmt"
	"slices"
	"sort"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// alias maps chunks of this or another memory at a second address. State, content and dirty bits
// are those of the original chunks.
type alias struct {
	gpu.Range
	home *Memory
	// homeAddress is the first address in home.
	homeAddress uint64
	write       bool
}

// AddAlias maps a range of home at address, for reading or for reading and writing. If the same
// alias exists, only its write permission changes.
func (m *Memory) AddAlias(address uint64, home *Memory, r gpu.Range, write bool) error {
	fresh := alias{gpu.Range{Address: address, Bytes: r.Bytes}, home, r.Address, write}
	if _, _, err := home.chunks(r); err != nil {
		return err
	}
	if address%gpu.ChunkBytes != 0 || address+r.Bytes < address || overlapsReserved(fresh.Range) {
		return fmt.Errorf("alias at %#x+%#x: %w", address, r.Bytes, abi.InvalidValue)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.anyMapped(fresh.Range) {
		return fmt.Errorf("alias at %#x+%#x: %w", address, r.Bytes, abi.AlreadyMapped)
	}
	old := *m.aliases.Load()
	at, found := searchAlias(old, address)
	aliases := slices.Clone(old)
	switch {
	case found && old[at].Range == fresh.Range && old[at].home == home && old[at].homeAddress == r.Address:
		aliases[at] = fresh
	case at < len(old) && overlap(old[at].Range, fresh.Range) || at > 0 && overlap(old[at-1].Range, fresh.Range):
		return fmt.Errorf("alias at %#x+%#x: %w", address, r.Bytes, abi.AlreadyMapped)
	default:
		aliases = slices.Insert(aliases, at, fresh)
	}
	m.aliases.Store(&aliases)
	if found {
		invalidateSpans() // drop spans that allow writes
	}
	return nil
}

// RemoveAlias removes the alias that starts at address. It returns when no access through it is in
// flight.
func (m *Memory) RemoveAlias(address uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.aliases.Load()
	at, found := searchAlias(old, address)
	if !found {
		return fmt.Errorf("remove the alias at %#x: %w", address, abi.NotMapped)
	}
	aliases := slices.Delete(slices.Clone(old), at, at+1)
	m.aliases.Store(&aliases)
	invalidateSpans()
	return nil
}

// searchAlias returns the index of the first alias at or after address, and whether it starts
// there.
func searchAlias(aliases []alias, address uint64) (int, bool) {
	at := sort.Search(len(aliases), func(i int) bool { return aliases[i].Address >= address })
	return at, at < len(aliases) && aliases[at].Address == address
}

// anyMapped reports whether any chunk of a range is mapped itself. mu is held.
func (m *Memory) anyMapped(r gpu.Range) bool {
	for at := r.Address; at < r.End(); at += gpu.ChunkBytes {
		if i := at - m.window.Address; i < m.window.Bytes && m.states.load(i/gpu.ChunkBytes) != unmapped {
			return true
		}
	}
	return false
}

// overlapsAlias reports whether an alias overlaps a range. mu is held.
func (m *Memory) overlapsAlias(r gpu.Range) bool {
	aliases := *m.aliases.Load()
	at := sort.Search(len(aliases), func(i int) bool { return aliases[i].End() > r.Address })
	return at < len(aliases) && overlap(aliases[at].Range, r)
}

// findAlias is Find for an address in an alias.
func (m *Memory) findAlias(reader *Reader, address uint64, write bool) (Span, error) {
	aliases := *m.aliases.Load()
	at := sort.Search(len(aliases), func(i int) bool { return aliases[i].End() > address })
	if at == len(aliases) || aliases[at].Address > address || write && !aliases[at].write {
		return Span{}, abi.IllegalAddress
	}
	a := &aliases[at]
	span, err := a.home.findChunk(reader, address-a.Address+a.homeAddress, write)
	if err != nil {
		return Span{}, err
	}
	// Cut the span to the alias.
	first := max(span.Address, a.homeAddress)
	end := min(span.Address+uint64(len(span.Memory)), a.homeAddress+a.Bytes)
	return Span{first - a.homeAddress + a.Address, span.Memory[first-span.Address : end-span.Address]}, nil
}
