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

// pauseTime is between two attempts when a worker could not be started, or has ended to make room.
const pauseTime = 10 * time.Second

// Options say which workers there shall be.
type Options struct {
	// Want is how many wait at a time.
	Want int
	// Command is the process of a worker, which finds the far end of the conversation where it looks
	// for it.
	Command func(far *os.File) *exec.Cmd
	// Seat takes a place in the memory accounting, and Leave gives it back when nobody accounts there
	// any more.
	Seat  func() (slot int, err error)
	Leave func(slot int)
	// Order is what a worker is told that takes a place.
	Order func(slot int) (order any, files []*os.File)
	Log   *slog.Logger
}

// Pool is the workers that wait.
type Pool struct {
	options Options
	// short is told when there may be too few.
	short chan struct{}
	// life ends with the pool.
	life context.Context //nolint:containedctx // the pool's own, not a request's
	stop context.CancelFunc
	// filling is the one goroutine that starts workers, watching those that look for their end.
	filling, watching sync.WaitGroup

	mu      sync.Mutex // guards all below
	waiting []*Worker
	closed  bool
	// pause is set when a worker has ended that nobody has ended.
	pause bool
}

// New makes a pool and begins to fill it.
func New(options Options) *Pool {
	p := &Pool{options: options, short: make(chan struct{}, 1)}
	p.life, p.stop = context.WithCancel(context.Background())
	if options.Want > 0 {
		p.filling.Go(p.fill)
	}
	return p
}

// fill starts workers as long as there are too few, one after the other: programs that run need the
// cores too.
func (p *Pool) fill() {
	for {
		for p.wants() {
			if err := p.add(); err != nil {
				p.options.Log.Warn("no worker waits for the next program", "error", err)
				p.rest()
			}
		}
		select {
		case <-p.life.Done():
			return
		case <-p.short:
		}
		if p.paused() {
			p.rest()
		}
	}
}

func (p *Pool) wants() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && len(p.waiting) < p.options.Want
}

func (p *Pool) paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.pause = false }()
	return p.pause
}

func (p *Pool) rest() {
	select {
	case <-p.life.Done():
	case <-time.After(pauseTime):
	}
}

// add starts one worker.
func (p *Pool) add() error {
	slot, err := p.options.Seat()
	if err != nil {
		return err
	}
	order, files := p.options.Order(slot)
	begun := time.Now()
	w, err := start(p.life, p.options.Command, order, files...)
	if err != nil {
		p.options.Leave(slot)
		return err
	}
	w.Slot = slot
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		w.End()
		p.options.Leave(slot)
		return nil
	}
	p.waiting = append(p.waiting, w)
	handle := w.handle // Take forgets it
	p.watching.Go(func() { p.watch(w, handle) })
	p.options.Log.Debug("a worker waits for a program", "worker", w.PID(), "took", time.Since(begun))
	return nil
}

// watch sees a worker end that waits. One that was taken is somebody else's to watch: its handle is
// closed then.
func (p *Pool) watch(w *Worker, handle *proc.Handle) {
	if handle.Wait() != nil || !p.remove(w) {
		return
	}
	w.End()
	p.options.Leave(w.Slot)
	p.options.Log.Info("a worker that waited has ended", "worker", w.PID())
	p.mu.Lock()
	p.pause = true
	p.mu.Unlock()
	p.tell()
}

// remove reports whether the worker was waiting.
func (p *Pool) remove(w *Worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, w)
	if at < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, at, at+1)
	return true
}

func (p *Pool) tell() {
	select {
	case p.short <- struct{}{}:
	default:
	}
}

// Take hands out the worker that has waited longest, whose place is the caller's from now on; nil:
// none is ready.
func (p *Pool) Take() *Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.waiting) == 0 {
		return nil
	}
	w := p.waiting[0]
	p.waiting = slices.Delete(p.waiting, 0, 1)
	_ = w.handle.Close() // which ends watch
	w.handle = nil
	p.tell()
	return w
}

// Waiting counts the workers that are ready, and what they hold of each GPU.
func (p *Pool) Waiting() (count int, bytes []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		for i, each := range w.MemoryBytes {
			if i == len(bytes) {
				bytes = append(bytes, 0)
			}
			bytes[i] += each
		}
	}
	return len(p.waiting), bytes
}

// Drop ends a worker that was taken and is not needed.
func (p *Pool) Drop(w *Worker) {
	w.End()
	p.options.Leave(w.Slot)
}

// Close ends all that wait.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errors.New("the pool is closed already")
	}
	p.closed = true
	left := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	p.stop()
	for _, w := range left {
		w.End()
		p.options.Leave(w.Slot)
	}
	p.filling.Wait()
	p.watching.Wait()
	return nil
}
