package checkpoints

import (
	"context"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/phosd/sessions"
)

const (
	// maxLimited is how many programs of one user are saved at a time with a limited bandwidth.
	maxLimited = 4
	// A program that is overdue is saved although others are being saved: after patience, if these
	// are fewer than maxParallel; after longPatience, always. Those with a limited bandwidth do not
	// count.
	patience, longPatience = 5 * time.Second, 30 * time.Second
)

// turns decides when policies save programs. They prefer one program at a time, because copying
// disturbs the programs that run. But the owner of a program decides how long its checkpoint takes,
// by its bandwidth, its size and its disk. So a user waits for another user's programs only for a
// while, and no program waits for one with a limited bandwidth, which disturbs little.
type turns struct {
	mu sync.Mutex // guards all below
	// paused refuses turns.
	paused int
	taken  map[*sessions.Session]*turn
}

// turn is one program that is being saved by its policy.
type turn struct {
	uid     uint32
	limited bool
	cancel  context.CancelCauseFunc
}

// take gives a program its turn until done is called, or returns nil. Pause cancels the context.
func (t *turns) take(
	ctx context.Context,
	s *sessions.Session,
	limited bool,
	overdue time.Duration,
) (_ context.Context, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	uid := s.Record().Owner.UID
	if t.paused > 0 || t.taken[s] != nil || !t.free(uid, limited, overdue) {
		return nil, nil
	}
	if t.taken == nil {
		t.taken = make(map[*sessions.Session]*turn)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t.taken[s] = &turn{uid, limited, cancel}
	return ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.taken, s)
		cancel(nil)
	}
}

// free reports whether one more program may be saved.
func (t *turns) free(uid uint32, limited bool, overdue time.Duration) bool {
	all, own := 0, 0
	for _, each := range t.taken {
		if each.limited != limited {
			continue
		}
		all++
		if each.uid == uid {
			own++
		}
	}
	switch {
	case limited:
		return own < maxLimited
	case own > 0:
		return false
	case overdue > longPatience:
		return true
	case overdue > patience:
		return all < maxParallel
	}
	return all == 0
}

// pause cancels what is in flight, and refuses turns until resume is called.
func (t *turns) pause() (resume func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused++
	for _, each := range t.taken {
		each.cancel(ErrCanceled)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.paused--
	}
}
