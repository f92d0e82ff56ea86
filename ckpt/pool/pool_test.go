package pool

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

var errTest = errors.New("test")

// TestEach: every item is processed once, whatever the number of workers.
func TestEach(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	items := make([]int, 100)
	for i := range items {
		items[i] = i
	}
	for _, workers := range []Workers{All(), Background(), {Count: 0}, {Count: 1000}} {
		var mu sync.Mutex
		var done []int
		err := Each(t.Context(), workers, items, func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			done = append(done, i)
			return nil
		})
		slices.Sort(done)
		if err != nil || !slices.Equal(done, items) {
			t.Errorf("%+v: got %v, %v", workers, done, err)
		}
	}
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS is %d, want %d", got, before)
	}
}

// TestEachFails: no item is begun after an error or after the end of the context.
func TestEachFails(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	var calls atomic.Int64
	err := Each(ctx, Workers{Count: 1}, make([]int, 10), func(int) error {
		if calls.Add(1) == 3 {
			return errTest
		}
		return nil
	})
	if !errors.Is(err, errTest) || calls.Load() != 3 {
		t.Errorf("got %v after %d calls, want %v after 3", err, calls.Load(), errTest)
	}
	cancel(errTest)
	if err := Each(ctx, All(), make([]int, 10), func(int) error { return nil }); !errors.Is(err, errTest) {
		t.Errorf("cancelled: got %v, want %v", err, errTest)
	}
}

// TestRun: the first error ends the context of the other functions and is returned.
func TestRun(t *testing.T) {
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("a consequence")
	}
	if err := Run(t.Context(), wait, func(context.Context) error { return errTest }, wait); !errors.Is(err, errTest) {
		t.Errorf("got %v, want %v", err, errTest)
	}
	if err := Run(t.Context()); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
}
