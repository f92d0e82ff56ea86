package worker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/worker/session/trace"
)

// tracing holds the trace in progress; there is at most one.
type tracing struct {
	mu  sync.Mutex // held while a trace begins or ends
	log atomic.Pointer[trace.Log]
}

// Trace starts a trace into a file that phosd handed off, or ends the current trace.
func (c *control) Trace(ctx context.Context, request *api.TraceRequest) (*api.TraceReply, error) {
	if err := rootOnly(ctx); err != nil {
		return nil, err
	}
	w := c.worker
	if !request.GetStart() {
		return w.endTrace()
	}
	file, err := c.takeFile(ctx, request.GetFiles())
	if err != nil {
		return nil, err
	}
	if err := w.beginTrace(file); err != nil {
		return nil, err
	}
	return &api.TraceReply{}, nil
}

// takeFile returns the one file that phosd has handed off for writing.
func (c *control) takeFile(ctx context.Context, token []byte) (*os.File, error) {
	caller, err := api.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	files, err := c.worker.tokens.Take(token, caller)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		closeAll(files)
		return nil, fmt.Errorf("%w: got %d files, want one to write to", api.ErrInvalid, len(files))
	}
	return files[0], nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// beginTrace starts a trace and takes ownership of the file.
func (w *Worker) beginTrace(file *os.File) error {
	w.tracing.mu.Lock()
	defer w.tracing.mu.Unlock()
	active := w.active.Load()
	tracing := w.tracing.log.Load() != nil
	if active == nil || w.program == nil || tracing {
		closeAll([]*os.File{file})
		if tracing {
			return fmt.Errorf("%w: the program is already being traced; stop that trace first", api.ErrInvalid)
		}
		return fmt.Errorf("%w: the program is still starting", api.ErrInvalid)
	}
	head := trace.Head{
		Trace: trace.Version, PID: w.program.PID, Session: w.config.Session, Job: w.currentJob().name, Begun: time.Now(),
	}
	log := trace.New(file, trace.DefaultLimit, head)
	w.tracing.log.Store(log)
	active.session.Trace(log)
	w.log.Info("trace started", "file", file.Name())
	return nil
}

// endTrace closes the log and returns how many calls it has, and its first error.
func (w *Worker) endTrace() (*api.TraceReply, error) {
	w.tracing.mu.Lock()
	defer w.tracing.mu.Unlock()
	log := w.tracing.log.Load()
	if log == nil {
		return nil, fmt.Errorf("%w: the program is not being traced", api.ErrInvalid)
	}
	if active := w.active.Load(); active != nil {
		active.session.Trace(nil)
	}
	calls, err := log.Close()
	w.tracing.log.Store(nil)
	w.log.Info("trace ended", "calls", calls, "error", err)
	reply := &api.TraceReply{Calls: calls}
	if err != nil {
		reply.Error = err.Error()
	}
	return reply, nil
}

// flushTrace writes the rest of a trace before the process exits. It takes no lock of the session,
// which may be busy forever. Several goroutines may end the process; each of them waits here until
// the file is whole.
func (w *Worker) flushTrace() {
	if log := w.tracing.log.Load(); log != nil {
		_, _ = log.Close() // the process exits; there is no caller for the error
	}
}
