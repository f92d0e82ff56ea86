package cuda

import (
	"github.com/phos-gpu/phos/daemon/gpu"
)

// lane does what is queued, in order, and ends when nothing is left. While it runs, everything
// submitted queues behind it.
func (s *Stream) lane() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		it := s.queue[0]
		s.queue[0] = item{} // what is done must not be kept alive
		s.queue = s.queue[1:]
		s.mu.Unlock()
		s.perform(it)
		it.drop()
		s.mu.Lock()
		s.completed++
		s.progress.Broadcast()
	}
	s.queue, s.running = nil, false
	s.progress.Broadcast()
}

// perform does one item, or once the context stops, only what others may wait for.
func (s *Stream) perform(it item) {
	c := s.context
	switch work := it.work.(type) {
	case gpu.Call:
		s.drain()
		s.awaitTells(it.after)
		work.Func()
		return
	case gpu.Tell:
		s.tellLate(work, it.own)
		return
	}
	if _, awaits := it.work.(gpu.Await); awaits && it.mark != nil {
		select {
		case <-it.mark.wait():
		case <-c.stop:
		}
	}
	if c.stopping() {
		it.abandon()
		return
	}
	var err error
	if copied, is := it.work.(gpu.Copy); is && !it.native() {
		err = s.ferry(copied)
	} else {
		s.mu.Lock()
		err = s.issue(it)
		s.mu.Unlock()
	}
	c.failLater(err)
}

// tellLate is tell in the lane. What it belongs behind, the driver has by now.
func (s *Stream) tellLate(work gpu.Tell, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tell(work.Func, own) == nil {
		return
	}
	s.mu.Unlock() // there is no event to be had
	s.drain()
	s.mu.Lock()
	s.tellAt(tell{do: work.Func, own: own})
}

// drain waits until the driver is done with the stream, or the context stops.
func (s *Stream) drain() {
	c := s.context
	if c.stopping() {
		return
	}
	err := c.driver.StreamQuery(c.native, s.native)
	if err != nil { // it is not ready, or the driver cannot say
		err = s.awaitDriver()
	}
	if err := c.noted("wait for stream", err); err != nil && !c.stopping() {
		c.poison(err) // nobody knows what of the stream's work is done
	}
}

// awaitDriver returns when the driver is done with the stream, or says why it is not. Where the
// context stops, that is never waited for: what the driver waits for may be among the work that is
// passed over.
func (s *Stream) awaitDriver() error {
	c, done := s.context, make(chan error, 1)
	go func() { done <- c.driver.StreamSynchronize(c.native, s.native) }()
	select {
	case err := <-done:
		return err
	case <-c.stop:
		return nil
	}
}

// native reports whether the driver can be given the item now.
func (it *item) native() bool {
	switch work := it.work.(type) {
	case gpu.Call:
		return false
	case gpu.Copy:
		return onDevices(work)
	case gpu.Await:
		if it.mark == nil {
			return true
		}
		_, settled := it.mark.known()
		return settled
	}
	return true
}

// abandon lets go whoever waits for what will not be done.
func (it *item) abandon() {
	if _, records := it.work.(gpu.Record); records {
		it.mark.abandon()
	}
}

// drop gives up what the item uses.
func (it *item) drop() {
	it.mark.drop()
	it.graph.unuse()
}
