package restorer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/criu/pager"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// server is the state of the restorer process.
type server struct {
	self  proc.Identity
	order Order
	files []*os.File
	// home is the directory of the restorer's cgroup, in which the tree will run.
	home string
	// start is the cgroup of CRIU and the tree that it creates, group that of the complete tree.
	start, group *freezer.Group
	// root is the tree's root in the restorer's pid namespace, once it exists.
	root   proc.Identity
	status *exitStatus
	// answering are the requests that are being answered.
	answering answering
	committed atomic.Bool
	// relay is nil for a tree whose memory CRIU has restored; lost is why a tree was killed.
	relay        *pager.Relay
	lost         atomic.Pointer[string]
	userfaultfds userfaultfds
	// output gets what the tree writes to ends without a reader.
	output *output
}

// Serve runs the restorer until its tree has ended. arguments are those after its role.
func Serve(arguments []string) error {
	if err := initNamespace(arguments); err != nil {
		return err
	}
	// The terminal may hang up, but the restorer must still report how the tree ended.
	fdpass.IgnoreSignals()
	runner.RaiseLimits()
	conn, err := fdpass.Inherited(orderFD)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &server{status: newExitStatus()}
	if s.self, err = proc.Of(os.Getpid()); err != nil {
		return err
	}
	if s.home, err = cgroup.Of(os.Getpid()); err != nil {
		return err
	}
	if s.files, err = conn.Receive(&s.order); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	return s.run(conn)
}

// run restores the tree, waits for phosd's commit, and then for the tree's end.
func (s *server) run(conn *fdpass.Conn) error {
	ctx, cancel := context.WithDeadline(context.Background(), s.order.Deadline)
	defer cancel()
	orders := s.listen(conn, cancel)
	// Listen before the first answer, so that every later connection reaches this process.
	listener, err := s.takeSocket()
	if err != nil {
		return errors.Join(err, conn.Send(newAnswer(err)))
	}
	defer listener.Close()
	if err := s.restore(ctx); err != nil {
		err = errors.Join(err, s.abort())
		return errors.Join(err, conn.Send(newAnswer(err)))
	}
	drained := s.copyOutput()
	go s.answerAll(listener)
	if err := conn.Send(answer{}); err != nil {
		return errors.Join(err, s.abort())
	}
	if !s.waitCommit(orders) {
		return s.abort()
	}
	s.committed.Store(true)
	err = s.group.Thaw()
	if err != nil {
		err = errors.Join(err, s.abort())
	}
	if sent := conn.Send(newAnswer(err)); err != nil {
		return errors.Join(err, sent)
	}
	s.awaitEnd(drained)
	return nil
}

// takeSocket returns the listener at which later phosds find this restorer.
func (s *server) takeSocket() (*fdpass.Listener, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return fdpass.TakeListener(s.files[s.order.Socket])
}

// listen receives the requests of the phosd that started this restorer. When that phosd has gone,
// listen cancels the restore.
func (s *server) listen(conn *fdpass.Conn, gone func()) <-chan request {
	orders := make(chan request, 1)
	go func() {
		defer close(orders)
		for {
			var next request
			files, err := conn.Receive(&next)
			if err != nil {
				gone()
				return
			}
			fdpass.Close(files)
			orders <- next
		}
	}()
	return orders
}

// commitTime is how long phosd may take to commit or abort a restore.
const commitTime = 15 * time.Minute

// waitCommit waits for phosd's commit.
func (s *server) waitCommit(orders <-chan request) bool {
	select {
	case next, ok := <-orders:
		return ok && next.Commit
	case <-time.After(commitTime):
		return false
	}
}

// awaitEnd waits until the tree has ended and a client has received its exit status.
func (s *server) awaitEnd(drained <-chan struct{}) {
	s.closeFiles()
	s.reap()
	select {
	case <-drained:
	case <-time.After(lingerTime): // a process outside of the tree holds an end of it
	}
	if !s.order.Detach {
		s.status.linger()
	}
	s.answering.finish()
}

// closeFiles closes what only the restore needed. An open end of a pipe would keep its reader
// waiting.
func (s *server) closeFiles() {
	keep := map[int]bool{s.order.Socket: true}
	if s.order.Log >= 0 {
		keep[s.order.Log] = true
	}
	for _, index := range s.order.Drain {
		keep[index] = true
	}
	for i, file := range s.files {
		if !keep[i] {
			_ = file.Close()
		}
	}
}
