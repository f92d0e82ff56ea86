package watchdog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestOutOfOrder: orders that need a frozen or a running tree are refused in the other state.
func TestOutOfOrder(t *testing.T) {
	for name, sent := range map[string]order{
		"nothing":                 {},
		"dump without a tree":     {Dump: &Dump{}},
		"kill without a tree":     {Kill: true},
		"prestart without a file": {Prestart: &prestart{}},
		"precopy without a file":  {Precopy: &Precopy{}},
	} {
		w := &watchdog{self: proc.Identity{PID: 1}}
		if err := w.handle(message{order: sent}, make(chan message)); !errors.Is(err, ErrOrder) {
			t.Errorf("%s: got error %v, want %v", name, err, ErrOrder)
		}
	}
	if err := (&watchdog{}).handle(message{order: order{Thaw: true}}, nil); err != nil {
		t.Errorf("thaw without a tree: %v", err)
	}
}

// TestWhileWatching: a running order ends early when phosd cancels it or exits.
func TestWhileWatching(t *testing.T) {
	for name, test := range map[string]struct {
		send func(orders chan message)
		want error // nil: any
	}{
		"cancel": {func(orders chan message) { orders <- message{order: order{Cancel: true}} }, context.Canceled},
		"late": {
			func(orders chan message) { orders <- message{order: order{Cancel: true, Late: true}} },
			context.DeadlineExceeded,
		},
		"exit": {func(orders chan message) { close(orders) }, nil},
	} {
		orders := make(chan message, 1)
		test.send(orders)
		err := (&watchdog{}).whileWatching(orders, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: got error %v, want %v", name, err, test.want)
		}
	}
}

// TestTakePrestarted: a waiting CRIU is used only for a dump with the same options; the deadline
// may differ.
func TestTakePrestarted(t *testing.T) {
	started := Dump{Program: "criu", Root: 7, Namespaces: []string{"mnt"}, Deadline: time.Unix(1, 0)}
	same, other := started, started
	same.Deadline, other.Connected = time.Unix(2, 0), true
	for name, test := range map[string]struct {
		order Dump
		want  bool
	}{"same": {same, true}, "other": {other, false}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		first := &prestartedCRIU{order: started, release: make(chan struct{}), cancel: cancel, ended: make(chan error, 1)}
		go func() { first.ended <- first.await(ctx) }()
		w := &watchdog{self: proc.Identity{PID: -1}, prestarted: first}
		if got := w.takePrestarted(test.order); (got == first) != test.want || w.prestarted != nil {
			t.Errorf("%s: got %v, waiting %v", name, got, w.prestarted)
		}
		if !test.want {
			if !errors.Is(context.Cause(ctx), errOtherDump) {
				t.Errorf("%s: got cause %v, want %v", name, context.Cause(ctx), errOtherDump)
			}
			continue
		}
		if first.released() {
			t.Errorf("%s: released before run", name)
		}
		if err := first.run(t.Context()); err != nil || !first.released() {
			t.Errorf("%s: run: %v, released %v", name, err, first.released())
		}
	}
}

func TestSecondsLeft(t *testing.T) {
	if got := secondsLeft(time.Now().Add(-time.Hour)); got != 2 {
		t.Errorf("past deadline: got %d, want 2", got)
	}
	if got := secondsLeft(time.Now().Add(10*time.Second + time.Second/2)); got != 12 {
		t.Errorf("deadline in 10.5 s: got %d, want 12", got)
	}
}
