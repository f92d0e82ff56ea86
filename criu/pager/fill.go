package pager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/internal/linux/userfault"
)

// fillBytes is how much is given at once: a thread that touches another page waits for it.
const fillBytes = 256 << 10

// workers returns those that fill: all processors while the processes wait for it, or else few that
// yield to them.
func (p *pager) workers() pool.Workers {
	if p.order.Eager {
		return pool.All()
	}
	return pool.Background()
}

// fill gives all address spaces their memory. It returns when they have it, or are gone.
func (p *pager) fill() error {
	one := pool.Workers{Count: 1, Background: p.workers().Background}
	return pool.Each(context.Background(), one, []*pager{p}, (*pager).fillAll)
}

// fillAll is fill in the calling thread.
func (p *pager) fillAll() error {
	for {
		all := p.all()
		if len(all) == 0 {
			return nil
		}
		for _, s := range all {
			if err := p.fillSpace(s); err != nil {
				return err
			}
		}
	}
}

// fillSpace gives an address space all of its memory: first what was written last before the cut.
func (p *pager) fillSpace(s *space) error {
	if s.number < 0 && s.file.Gone() {
		return p.finish(s) // without reading a chunk for it
	}
	for _, wanted := range []func(piece) bool{
		func(one piece) bool { return !p.layout.files[one.file].parent },
		func(piece) bool { return true },
	} {
		err := p.fillWanted(s, wanted)
		if errors.Is(err, userfault.ErrGone) {
			break
		}
		if errors.Is(err, userfault.ErrChanging) {
			return nil // its turn comes again: its fork may wait for others to be done
		}
		if err != nil {
			return err
		}
	}
	return p.finish(s)
}

// patience is how often a piece is tried that cannot be given, before others are.
const patience = 20

// fillWanted gives an address space the pieces that are wanted. Memory that is moved at the same
// time may be passed over, so it looks again until none is left.
func (p *pager) fillWanted(s *space, wanted func(piece) bool) error {
	next := func(from uint64) (piece, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return s.missing.next(from, wanted)
	}
	for {
		ahead := p.newAhead(s, wanted)
		at, found, tries := uint64(0), false, 0
		for {
			one, more := next(at)
			if !more {
				break
			}
			found = true
			one = one.inChunk(fillBytes)
			ahead.reach(keyOf(one))
			err := p.give(s, one)
			if errors.Is(err, userfault.ErrChanging) && tries < patience {
				tries++
				time.Sleep(retryTime) //nolint:forbidigo // until the events are read
				continue
			}
			if err != nil {
				return err
			}
			at, tries = one.end, 0
		}
		if !found {
			return nil
		}
	}
}

// give reads a piece within one chunk and gives it, as far as it is missing.
func (p *pager) give(s *space, one piece) error {
	chunk, err := p.chunks.get(keyOf(one))
	if err != nil {
		return p.damage(s, one, err)
	}
	content, err := one.of(chunk)
	if err != nil {
		return p.damage(s, one, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spaces[s.number] != s {
		return userfault.ErrGone // it was finished
	}
	if err := s.give(one, content); err != nil {
		return fmt.Errorf("memory at %#x: %w", one.start, err)
	}
	return nil
}

// damage says which page of which image is lost.
func (p *pager) damage(s *space, one piece, err error) error {
	of := fmt.Sprintf("pid %d", s.number)
	if s.number < 0 {
		of = "a child"
	}
	return fmt.Errorf("image %s: the page at %#x of %s cannot be brought back: %w", p.order.Image, one.start, of, err)
}

// ahead reads chunks ahead of those that are given.
type ahead struct {
	chunks  *chunks
	workers pool.Workers
	// sequence is the order in which chunks will be needed; at is where it is.
	sequence []chunkKey
	at       int
}

// newAhead returns the order of the chunks of the pieces that are wanted.
func (p *pager) newAhead(s *space, wanted func(piece) bool) *ahead {
	p.mu.Lock()
	all := s.missing.clone()
	p.mu.Unlock()
	a := &ahead{chunks: p.chunks, workers: p.workers()}
	all.tree.Ascend(func(one piece) bool {
		for wanted(one) && one.start < one.end {
			part := one.inChunk(one.end - one.start)
			if key := keyOf(part); len(a.sequence) == 0 || a.sequence[len(a.sequence)-1] != key {
				a.sequence = append(a.sequence, key)
			}
			one = one.clip(part.end, one.end)
		}
		return true
	})
	return a
}

// reach begins to read what comes after a chunk.
func (a *ahead) reach(key chunkKey) {
	if len(a.sequence) == 0 || a.sequence[a.at] == key && a.at > 0 {
		return
	}
	for i := a.at; i < len(a.sequence); i++ {
		if a.sequence[i] == key {
			a.at = i
			break
		}
	}
	for _, next := range a.sequence[a.at:min(a.at+1+a.workers.Count, len(a.sequence))] {
		a.chunks.ask(next, a.workers)
	}
}
