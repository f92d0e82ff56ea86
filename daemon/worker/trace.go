package worker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/worker/session/trace"
)

// tracing is the one trace that there may be at a time.
type tracing struct {
	mu  sync.Mutex // guards log
	log *trace.Log
}

// Trace begins a trace into a file that phosd hands over, or ends the one that is there.
func (c *control) Trace(ctx context.Context, request *api.TraceRequest) (*api.TraceReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	w := c.worker
	if !request.GetStart() {
		return w.endTrace()
	}
	actor, err := api.ActorOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := w.desk.Take(request.GetFiles(), actor)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		closeAll(files)
		return nil, fmt.Errorf("%w: %d files in place of one to write into", api.ErrInvalid, len(files))
	}
	if err := w.beginTrace(files[0]); err != nil {
		return nil, err
	}
	return &api.TraceReply{}, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// beginTrace takes the file over.
func (w *Worker) beginTrace(file *os.File) error {
	w.tracing.mu.Lock()
	defer w.tracing.mu.Unlock()
	joined := w.joined.Load()
	if joined == nil || w.program == nil || w.tracing.log != nil {
		closeAll([]*os.File{file})
		if w.tracing.log != nil {
			return fmt.Errorf("%w: this program is being traced already; stop that first", api.ErrInvalid)
		}
		return fmt.Errorf("%w: the program has not begun yet", api.ErrInvalid)
	}
	head := trace.Head{
		Trace: trace.Version, PID: w.program.PID, Session: w.config.Session, Job: w.currentJob().name, Begun: time.Now(),
	}
	w.tracing.log = trace.New(file, trace.DefaultLimit, head)
	joined.session.Trace(w.tracing.log)
	w.log.Info("trace begins", "file", file.Name())
	return nil
}

func (w *Worker) endTrace() (*api.TraceReply, error) {
	w.tracing.mu.Lock()
	defer w.tracing.mu.Unlock()
	if w.tracing.log == nil {
		return nil, fmt.Errorf("%w: this program is not being traced", api.ErrInvalid)
	}
	if joined := w.joined.Load(); joined != nil {
		joined.session.Trace(nil)
	}
	calls, err := w.tracing.log.Close()
	w.tracing.log = nil
	w.log.Info("trace ends", "calls", calls, "error", err)
	reply := &api.TraceReply{Calls: calls}
	if err != nil {
		reply.Error = err.Error()
	}
	return reply, nil
}

// flushTrace writes what is left of a trace, when the process is about to end. A session that is
// busy is not waited for: its lock is not taken.
func (w *Worker) flushTrace() {
	if !w.tracing.mu.TryLock() {
		return
	}
	defer w.tracing.mu.Unlock()
	if w.tracing.log != nil {
		_, _ = w.tracing.log.Close() // nobody is left to be told
		w.tracing.log = nil
	}
}
