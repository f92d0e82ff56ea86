package cuda

import (
	"github.com/phos-gpu/phos/daemon/gpu"
)

// runQueue performs queued items in order, and returns when none are left. While it runs, all
// submitted work is queued behind it.
func (s *Stream) runQueue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		it := s.queue[0]
		s.queue[0] = item{} // let the garbage collector free it
		s.queue = s.queue[1:]
		s.mu.Unlock()
		s.perform(it)
		it.release()
		s.mu.Lock()
		s.completed++
		s.progress.Broadcast()
	}
	s.queue, s.queueRunning = nil, false
	s.progress.Broadcast()
}

// perform does one item. In a stopping context it only does what others may wait for.
func (s *Stream) perform(it item) {
	c := s.context
	switch work := it.work.(type) {
	case gpu.Call:
		s.drain()
		s.waitCompletions(it.after)
		work.Func()
		return
	case gpu.Completion:
		s.addQueuedCompletion(work, it.own)
		return
	}
	if _, ok := it.work.(gpu.Await); ok && it.record != nil {
		select {
		case <-it.record.settling():
		case <-c.stop:
		}
	}
	if c.stopping() {
		it.abandon()
		return
	}
	var err error
	if w, ok := it.work.(gpu.Copy); ok && !it.issuable() {
		err = s.bounceCopy(w)
	} else {
		s.mu.Lock()
		err = s.issue(it)
		s.mu.Unlock()
	}
	c.failLater(err)
}

// addQueuedCompletion is addCompletion for the host queue. All earlier work is with the driver by
// then.
func (s *Stream) addQueuedCompletion(work gpu.Completion, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addCompletion(work.Func, own) == nil {
		return
	}
	s.mu.Unlock() // the driver has no more events, so wait here
	s.drain()
	s.mu.Lock()
	s.addCompletionAfter(completion{run: work.Func, own: own})
}

// drain waits until the driver's stream is idle, or the context stops.
func (s *Stream) drain() {
	c := s.context
	if c.stopping() {
		return
	}
	err := c.driver.StreamQuery(c.native, s.native)
	if err != nil { // busy, or an error
		err = s.waitDriver()
	}
	if err := c.driverErr("wait for stream", err); err != nil && !c.stopping() {
		c.poison(err) // it is unknown which work is done
	}
}

// waitDriver waits until the driver's stream is idle and returns the driver's error. It returns at
// once in a stopping context: the driver may wait for work that will be skipped.
func (s *Stream) waitDriver() error {
	c, done := s.context, make(chan error, 1)
	go func() { done <- c.driver.StreamSynchronize(c.native, s.native) }()
	select {
	case err := <-done:
		return err
	case <-c.stop:
		return nil
	}
}

// issuable reports whether the driver can be given the item now.
func (it *item) issuable() bool {
	switch work := it.work.(type) {
	case gpu.Call:
		return false
	case gpu.Copy:
		return onDevices(work)
	case gpu.Await:
		if it.record == nil {
			return true
		}
		_, settled := it.record.state()
		return settled
	}
	return true
}

// abandon releases waiters for work that will not be done.
func (it *item) abandon() {
	if _, ok := it.work.(gpu.Record); ok {
		it.record.abandon()
	}
}

// release drops the item's references.
func (it *item) release() {
	it.record.release()
	it.graph.endLaunch()
}
