package launches

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/ticks"
)

// followAgain is the pause before launches are asked for again after the stream broke.
const followAgain = 200 * time.Millisecond

// Followed has the launches of a cluster as its stream has told them.
type Followed struct {
	// Changed has a value if there is something new.
	Changed <-chan struct{}

	changed  chan struct{}
	mu       sync.Mutex
	known    bool
	launches map[string]*api.Launch // by id
	lost     error
}

// Listed are launches, the newest first.
type Listed struct {
	Launches []*api.Launch
	// Known means that the cluster has answered, now or some time ago, and Lost is why it does not
	// answer now.
	Known bool
	Lost  error
}

// Follow follows the launches, and waits for the first answer. The caller calls stop, which waits
// until nothing is sent any longer.
func Follow(ctx context.Context, c *api.Client, request *api.ListRequest) (f *Followed, stop func()) {
	changed := make(chan struct{}, 1)
	f = &Followed{Changed: changed, changed: changed, launches: map[string]*api.Launch{}}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.follow(ctx, c, request)
	}()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	return f, func() {
		cancel()
		<-ended
	}
}

// follow opens a stream, and another one when a leader has gone, until the context ends or the
// cluster refuses.
func (f *Followed) follow(ctx context.Context, c *api.Client, request *api.ListRequest) {
	for {
		err := f.once(ctx, c, request)
		f.tell(func() { f.lost = err })
		if !errors.Is(err, api.ErrUnavailable) || ticks.Pause(ctx, followAgain) != nil {
			return
		}
	}
}

// once follows one stream. The first reply has all launches.
func (f *Followed) once(ctx context.Context, c *api.Client, request *api.ListRequest) error {
	stream, err := c.Launches.Watch(ctx, request)
	for err == nil {
		var reply *api.WatchReply
		if reply, err = stream.Recv(); err != nil {
			break
		}
		f.tell(func() { f.take(reply, request.GetEnded()) })
	}
	return err
}

// take notes what the stream has told.
func (f *Followed) take(reply *api.WatchReply, ended bool) {
	f.known, f.lost = true, nil
	if reply.GetComplete() {
		clear(f.launches)
	}
	for _, l := range reply.GetLaunches() {
		if l.GetPhase() == "ended" && !ended {
			delete(f.launches, l.GetId())
		} else {
			f.launches[l.GetId()] = l
		}
	}
}

// tell changes what is known, and says so.
func (f *Followed) tell(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Now returns the launches.
func (f *Followed) Now() Listed {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := func(a, b *api.Launch) int { return cmp.Compare(b.GetNumber(), a.GetNumber()) }
	return Listed{slices.SortedFunc(maps.Values(f.launches), newest), f.known, f.lost}
}
