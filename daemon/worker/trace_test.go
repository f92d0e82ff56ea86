package worker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/worker/session/trace"
)

// slowFile is a file that needs a while for each write.
type slowFile struct{ closed atomic.Bool }

func (f *slowFile) Write(text []byte) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return len(text), nil
}

func (f *slowFile) Close() error {
	f.closed.Store(true)
	return nil
}

// TestFlushTrace: a worker is ended by the goroutine that watches the program and by the one that
// serves it, whichever is first. Neither may exit before the trace's file is whole.
func TestFlushTrace(t *testing.T) {
	file := &slowFile{}
	w := &Worker{}
	w.tracing.log.Store(trace.New(file, trace.DefaultLimit, trace.Head{}))
	var enders sync.WaitGroup
	for range 2 {
		enders.Go(func() {
			w.flushTrace()
			if !file.closed.Load() {
				t.Error("flushTrace returned before the file was whole")
			}
		})
	}
	enders.Wait()
}
