package standby

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// backoffTime is between two attempts after a worker could not be started, or exited by itself.
const backoffTime = 10 * time.Second

// Options say which workers are started.
type Options struct {
	// Size is how many workers are kept ready.
	Size int
	// Command returns the process of a worker, which inherits the far end of its socket to phosd.
	Command func(far *os.File) *exec.Cmd
	// Reserve takes a slot of the memory accounting. Release gives it back, once the worker has
	// exited.
	Reserve func() (slot int, err error)
	Release func(slot int)
	// Setup returns the first message to a worker.
	Setup func(slot int) (message any, files []*os.File)
	Log   *slog.Logger
}

// Pool is the standby workers.
type Pool struct {
	options Options
	// low is signalled when there may be too few workers.
	low chan struct{}
	// life ends with the pool.
	life context.Context //nolint:containedctx // the pool's own, not a request's
	stop context.CancelFunc
	// filling is the one goroutine that starts workers; watching are those that wait for their end.
	filling, watching sync.WaitGroup

	mu     sync.Mutex // guards all below
	ready  []*Worker
	closed bool
	// backoff is set when a worker has exited by itself: the next one is not started at once.
	backoff bool
}

// New makes a pool and starts to fill it.
func New(options Options) *Pool {
	p := &Pool{options: options, low: make(chan struct{}, 1)}
	p.life, p.stop = context.WithCancel(context.Background())
	if options.Size > 0 {
		p.filling.Go(p.fill)
	}
	return p
}

// fill starts workers while there are too few, one at a time: running programs need the cores too.
func (p *Pool) fill() {
	for {
		for p.tooFew() {
			if p.takeBackoff() {
				p.sleep()
			} else if err := p.add(); err != nil {
				p.options.Log.Warn("standby worker not started", "error", err)
				p.sleep()
			}
		}
		select {
		case <-p.life.Done():
			return
		case <-p.low:
		}
	}
}

// tooFew reports whether the pool is open and has fewer ready workers than it should.
func (p *Pool) tooFew() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && len(p.ready) < p.options.Size
}

// takeBackoff reports and clears backoff.
func (p *Pool) takeBackoff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.backoff = false }()
	return p.backoff
}

// sleep waits for backoffTime, or until the pool is closed.
func (p *Pool) sleep() {
	select {
	case <-p.life.Done():
	case <-time.After(backoffTime):
	}
}

// add starts one worker.
func (p *Pool) add() error {
	slot, err := p.options.Reserve()
	if err != nil {
		return err
	}
	message, files := p.options.Setup(slot)
	begun := time.Now()
	w, err := start(p.life, p.options.Command, message, files...)
	if err != nil {
		p.options.Release(slot)
		return err
	}
	w.Slot = slot
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		w.End()
		p.options.Release(slot)
		return nil
	}
	p.ready = append(p.ready, w)
	handle := w.handle // Take clears it
	p.watching.Go(func() { p.watch(w, handle) })
	p.options.Log.Debug("standby worker ready", "worker", w.PID(), "took", time.Since(begun))
	return nil
}

// watch releases a standby worker that exits by itself. When a worker is taken, its handle is
// closed, which ends watch.
func (p *Pool) watch(w *Worker, handle *proc.Handle) {
	if handle.Wait() != nil || !p.lose(w) {
		return
	}
	w.End()
	p.options.Release(w.Slot)
	p.options.Log.Info("standby worker exited", "worker", w.PID())
	p.signal()
}

// lose takes a worker that has exited out of the pool, and reports whether it was there. From the
// time at which the pool has too few, the next one waits.
func (p *Pool) lose(w *Worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.ready, w)
	if at < 0 {
		return false
	}
	p.ready = slices.Delete(p.ready, at, at+1)
	p.backoff = true
	return true
}

// signal wakes fill.
func (p *Pool) signal() {
	select {
	case p.low <- struct{}{}:
	default:
	}
}

// Take hands out the oldest worker, or nil if none is ready. The worker's slot is the caller's from
// now on.
func (p *Pool) Take() *Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.ready) == 0 {
		return nil
	}
	w := p.ready[0]
	p.ready = slices.Delete(p.ready, 0, 1)
	_ = w.handle.Close() // which ends watch
	w.handle = nil
	p.signal()
	return w
}

// Ready returns how many workers are ready, and how much memory they hold of each GPU.
func (p *Pool) Ready() (count int, bytes []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.ready {
		for i, each := range w.MemoryBytes {
			if i == len(bytes) {
				bytes = append(bytes, 0)
			}
			bytes[i] += each
		}
	}
	return len(p.ready), bytes
}

// Release ends a worker that was taken and is not needed.
func (p *Pool) Release(w *Worker) {
	w.End()
	p.options.Release(w.Slot)
}

// Close ends all standby workers.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errors.New("the pool is closed already")
	}
	p.closed = true
	left := p.ready
	p.ready = nil
	p.mu.Unlock()
	p.stop()
	for _, w := range left {
		w.End()
		p.options.Release(w.Slot)
	}
	p.filling.Wait()
	p.watching.Wait()
	return nil
}
