package restorer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// keeper is the state of the process.
type keeper struct {
	self  proc.Identity
	order Order
	files []*os.File
	group *freezer.Group
	// root is the tree's, once it is there, as the keeper sees it.
	root proc.Identity
	end  *end
}

// Serve is the keeper's whole life. Arguments are those behind its role.
func Serve(arguments []string) error {
	if err := settle(arguments); err != nil {
		return err
	}
	// The terminal's end is the tree's affair; a keeper has to say how the tree ended.
	fdpass.Deafen()
	runner.Unbind()
	conn, err := fdpass.Inherited(orderFD)
	if err != nil {
		return err
	}
	defer conn.Close()
	k := &keeper{end: newEnd()}
	if k.self, err = proc.Of(os.Getpid()); err != nil {
		return err
	}
	if k.files, err = conn.Receive(&k.order); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	return k.keep(conn)
}

// keep restores the tree, waits for phosd's word, and then for the tree's end.
func (k *keeper) keep(conn *fdpass.Conn) error {
	ctx, cancel := context.WithDeadline(context.Background(), k.order.Deadline)
	defer cancel()
	orders := k.listen(conn, cancel)
	// Taken over before anything is answered: whoever connects from then on finds this process at the
	// other end.
	listener, err := k.takeSocket()
	if err != nil {
		return errors.Join(err, conn.Send(newAnswer(err)))
	}
	defer listener.Close()
	if err := k.restore(ctx); err != nil {
		err = errors.Join(err, k.clear())
		return errors.Join(err, conn.Send(newAnswer(err)))
	}
	drained := k.drain()
	if err := conn.Send(answer{}); err != nil {
		return errors.Join(err, k.clear())
	}
	if !k.committed(orders) {
		return k.clear()
	}
	err = k.group.Thaw()
	if err != nil {
		err = errors.Join(err, k.clear())
	}
	if sent := conn.Send(newAnswer(err)); err != nil {
		return errors.Join(err, sent)
	}
	k.live(listener, drained)
	return nil
}

// takeSocket becomes the one who listens where later phosds look for this keeper.
func (k *keeper) takeSocket() (*fdpass.Listening, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	return fdpass.Listener(k.files[k.order.Socket])
}

// listen reads what the phosd says that has started this keeper; when it is gone, what it waits for
// is cancelled.
func (k *keeper) listen(conn *fdpass.Conn, gone func()) <-chan request {
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

// commitTime is how long a phosd that is there may take to say whether all of a restore went well.
const commitTime = 15 * time.Minute

// committed waits for that word.
func (k *keeper) committed(orders <-chan request) bool {
	select {
	case next, there := <-orders:
		return there && next.Commit
	case <-time.After(commitTime):
		return false
	}
}

// live answers until the tree has ended, and somebody knows how.
func (k *keeper) live(listener *fdpass.Listening, drained <-chan struct{}) {
	k.closeFiles()
	go k.answerAll(listener)
	k.reap()
	select {
	case <-drained:
	case <-time.After(lingering): // a process that is none of the tree's has an end of it
	}
	if !k.order.Detach {
		k.end.linger()
	}
}

// closeFiles closes what only the restore needed: the end of a pipe held here would never end for
// its reader.
func (k *keeper) closeFiles() {
	keep := map[int]bool{k.order.Socket: true}
	if k.order.Log >= 0 {
		keep[k.order.Log] = true
	}
	for _, index := range k.order.Drain {
		keep[index] = true
	}
	for i, file := range k.files {
		if !keep[i] {
			_ = file.Close()
		}
	}
}
