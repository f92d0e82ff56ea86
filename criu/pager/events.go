package pager

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/userfault"
)

// faultBytes is how much comes when a page is touched: the pages behind it are likely to be next.
const faultBytes = 64 << 10

// retryTime is how soon a page is tried again that could not be given while its address space
// changed.
const retryTime = time.Millisecond

// watch follows all address spaces, until the pager ends. The wait for events is short while a
// thread waits for a page that could not be given.
func (p *pager) watch() error {
	ready := make([]unix.EpollEvent, 64)
	wait := -1
	for {
		n, err := unix.EpollWait(p.epoll, ready, wait)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for events of memory: %w", err)
		}
		full := false
		for _, event := range ready[:max(n, 0)] {
			err := p.follow(int(event.Fd))
			if errors.Is(err, unix.EMFILE) {
				full = true
				continue
			}
			if err != nil {
				return err
			}
		}
		if full { // the event of a fork is still there
			if err := p.finishGone(); err != nil {
				return err
			}
			time.Sleep(retryTime) //nolint:forbidigo // until children have ended, or have all their memory
		}
		wait = -1
		waiting, err := p.answerFaults()
		if err != nil {
			return err
		}
		if waiting {
			wait = int(retryTime / time.Millisecond)
		}
	}
}

// follow reads the events of an address space. The error is EMFILE while there are too many
// processes to hear of another child.
func (p *pager) follow(number int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.spaces[number]
	if s == nil {
		return nil // it has just ended
	}
	events, err := s.file.Events()
	if err != nil {
		return err
	}
	for _, child := range s.follow(events) {
		p.forks--
		if err := p.add(&space{number: p.forks, file: child, missing: s.missing.clone()}); err != nil {
			return err
		}
		if err := p.tell(fromPager{Forked: p.forks}, child.File); err != nil {
			return err
		}
	}
	return nil
}

// answerFaults gives the pages for which threads wait. It reports whether some could not be given.
func (p *pager) answerFaults() (waiting bool, err error) {
	for _, s := range p.all() {
		var later []uint64
		for _, address := range s.faults {
			switch err := p.answerFault(s, address); {
			case errors.Is(err, userfault.ErrChanging):
				later = append(later, address)
			case err != nil && !errors.Is(err, userfault.ErrGone):
				return false, err
			}
		}
		s.faults = later
		waiting = waiting || len(later) > 0
	}
	return waiting, nil
}

// answerFault gives the page at an address, and some of those behind it.
func (p *pager) answerFault(s *space, address uint64) error {
	p.mu.Lock()
	one, missing := s.missing.at(address)
	if !missing {
		defer p.mu.Unlock()
		if p.spaces[s.number] != s {
			return userfault.ErrGone
		}
		return s.zero(address)
	}
	p.mu.Unlock()
	if err := p.give(s, one.clip(address, one.end).inChunk(faultBytes)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spaces[s.number] != s {
		return userfault.ErrGone
	}
	if _, still := s.missing.at(address); still { // other memory was moved here
		return userfault.ErrChanging
	}
	return s.file.Wake(address, address+pageBytes)
}
