package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/internal/ticks"
)

// Bounds of streams. A browser that reads nothing for writeTimeout is left alone.
const (
	beatEvery       = 10 * time.Second
	writeTimeout    = 30 * time.Second
	maxStreams      = 1000
	maxStreamsOfOne = 40
)

// errBusy means that there are too many streams.
var errBusy = errors.New("too many pages are open: close some of them")

// streamLimit counts the streams of each caller.
type streamLimit struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

func newStreamLimit() *streamLimit { return &streamLimit{of: map[string]int{}} }

// take counts a stream of a caller. The function that it returns counts its end.
func (l *streamLimit) take(caller string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxStreams || l.of[caller] >= maxStreamsOfOne {
		return nil, errBusy
	}
	l.all++
	l.of[caller]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.of[caller]--; l.of[caller] == 0 {
			delete(l.of, caller)
		}
	}, nil
}

// eventStream is an answer of server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	mu      sync.Mutex
}

// send sends an event; id, if it is not empty, is what a browser names when it comes back.
func (e *eventStream) send(kind, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	if _, err := fmt.Fprintf(e.w, "event: %s\n%sdata: %s\n\n", kind, id, text); err != nil {
		return err
	}
	return e.control.Flush()
}

// beat sends events without content until the context ends, so that the page sees a connection that
// is lost in silence.
func (e *eventStream) beat(ctx context.Context, cancel context.CancelFunc) {
	for range ticks.Every(ctx, beatEvery) {
		if e.send("beat", "", struct{}{}) != nil {
			cancel()
		}
	}
}

// streamed answers requests with server-sent events.
func (s *Server) streamed(follow func(*request, *eventStream) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := s.accept(w, r)
		caller, err := s.caller(q)
		if err != nil {
			writeError(w, s.parts.Translate(err))
			return
		}
		release, err := s.streams.take(caller.String())
		if err != nil {
			writeError(w, err)
			return
		}
		defer release()
		var cancel context.CancelFunc
		q.ctx, cancel = context.WithCancel(q.ctx)
		defer cancel()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		e := &eventStream{w: w, control: http.NewResponseController(w)}
		if e.send("begin", "", struct{}{}) != nil {
			return
		}
		go e.beat(q.ctx, cancel)
		end := struct{ fault }{}
		if err := follow(q, e); err != nil && q.ctx.Err() == nil {
			end.fault, _ = faultOf(s.parts.Translate(err))
		}
		_ = e.send("end", "", end) // the browser has gone
	})
}

// sink is the stream of a service whose messages go to a function.
type sink[T any] struct {
	grpc.ServerStream
	ctx  context.Context //nolint:containedctx // grpc's streams have one
	send func(*T) error
}

// Context implements grpc.ServerStream.
func (s *sink[T]) Context() context.Context { return s.ctx }

// Send implements the streams of package api.
func (s *sink[T]) Send(message *T) error { return s.send(message) }
