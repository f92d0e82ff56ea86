package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/phos-gpu/phos/cluster/control/backlog"
	"github.com/phos-gpu/phos/cluster/control/clock"
	"github.com/phos-gpu/phos/cluster/control/copies"
	"github.com/phos-gpu/phos/cluster/control/mirror"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/control/writer"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// ErrNotLeading is returned to callers of a leader that has just lost its leadership. The request
// may have been carried out.
var ErrNotLeading = errors.New("this controller no longer leads")

// Leader is a controller during one leadership. Its fields belong to the goroutine of Run. Other
// goroutines may use turns, renewals, questions and records.Stuck, and what never changes.
type Leader struct {
	store      store.Store
	leadership store.Leadership
	settings   Settings
	log        *slog.Logger
	clock      clock.Clock

	cluster  record.Cluster
	launches map[string]*entry
	numbers  map[int]*entry
	// requests are the launches that a request has created, and waiting those that wait for others.
	requests map[requestKey][]*entry
	waiting  map[*entry]struct{}
	// imaged are the launches with images.
	imaged map[*entry]struct{}
	nodes  map[string]*node
	tables tables
	copies copies.Chooser
	// mayStart means that parts may have got their places.
	mayStart  bool
	queues    []*queue
	watchers  map[Watcher]struct{}
	questions *session.Questions
	quotas    quotas

	records         *writer.Writer
	changedLaunches map[*entry]struct{}
	changedNodes    map[*node]struct{}
	// forgotten are launches whose records are to be removed.
	forgotten []*entry
	removed   []*node
	// after is what happens once the changes of the batch are in the store.
	after []func()
	// latest is the highest number of a launch.
	latest int

	// turns are what the goroutine does next. renewals it handles also while it waits for the store.
	turns    *backlog.List[func()]
	renewals *backlog.List[renewal]
}

// Beginning is what a leader begins with.
type Beginning struct {
	Store      store.Store
	Leadership store.Leadership
	// Mirror may have a copy of the records; nil: they are read from the store.
	Mirror *mirror.Mirror
}

// NewLeader gets what the store has, and returns the leader of it. The scheduler has been told of
// all launches then, but decides nothing before Run.
func NewLeader(ctx context.Context, from Beginning, settings Settings, log *slog.Logger) (*Leader, error) {
	l := &Leader{
		store: from.Store, leadership: from.Leadership, settings: settings.withDefaults(),
		log:      log.With("epoch", from.Leadership.Epoch()),
		launches: map[string]*entry{}, numbers: map[int]*entry{}, nodes: map[string]*node{},
		requests: map[requestKey][]*entry{}, waiting: map[*entry]struct{}{}, imaged: map[*entry]struct{}{},
		copies:   copies.Chooser{Peers: settings.Peers},
		tables:   tables{stale: map[*node]struct{}{}},
		watchers: map[Watcher]struct{}{}, questions: session.NewQuestions(),
		changedLaunches: map[*entry]struct{}{}, changedNodes: map[*node]struct{}{},
		turns: backlog.New[func()](), renewals: backlog.New[renewal](),
	}
	l.records = &writer.Writer{Store: l.store, Leadership: l.leadership, Log: l.log}
	if err := l.load(ctx, from.Mirror); err != nil {
		return nil, fmt.Errorf("read the cluster from the store: %w", err)
	}
	return l, nil
}

// Epoch returns the number of the leadership.
func (l *Leader) Epoch() store.Epoch { return l.leadership.Epoch() }

// tick is how often the leader looks at the leases of nodes and the limits of launches.
const tick = 500 * time.Millisecond

// Run leads until the context ends or the leadership is lost, and returns why. What runs in the
// cluster goes on.
func (l *Leader) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer l.end()
	l.tellSchedulers()
	for _, q := range l.queues {
		go q.run(ctx, cancel)
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.leadership.Lost():
			return ErrNotLeading
		case <-ticker.C:
			l.turns.Add(l.lookAtTheClock)
		case <-l.renewals.Ready():
			l.renewAll()
		case <-l.turns.Ready():
			if err := l.batch(ctx); err != nil {
				return err
			}
		}
	}
}

// batch makes the turns that wait, writes what they have changed, and does what depends on that.
func (l *Leader) batch(ctx context.Context) error {
	for _, turn := range l.turns.Take() {
		turn()
	}
	l.tryStarts()
	if err := l.write(ctx); err != nil {
		return err
	}
	after := l.after
	l.after = nil
	for _, do := range after {
		do()
	}
	l.tellSchedulers()
	return nil
}

// tellSchedulers passes on what the turns have posted.
func (l *Leader) tellSchedulers() {
	l.admitHeld()
	l.publishTable()
	for _, q := range l.queues {
		q.flush()
	}
}

// then does something once all changes so far are in the store.
func (l *Leader) then(do func()) { l.after = append(l.after, do) }

// ask makes a turn, and returns its error once its changes are in the store, or another one if the
// store takes nothing. The turn must not keep what belongs to the leader.
func (l *Leader) ask(ctx context.Context, turn func() error) error {
	answer := make(chan error, 1)
	if !l.turns.Add(func() {
		err := turn()
		l.then(func() { answer <- err })
	}) {
		return ErrNotLeading
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case err := <-answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-l.leadership.Lost():
			return ErrNotLeading
		case <-look.C:
			if err := l.records.Stuck(); err != nil {
				return fmt.Errorf("%w; the request may be carried out when it does", err)
			}
		}
	}
}

// end closes everything that depends on this leader.
func (l *Leader) end() {
	l.turns.Close()
	l.renewals.Close()
	for _, n := range l.nodes {
		if n.session != nil {
			n.session.End(ErrNotLeading)
		}
	}
	for w := range l.watchers {
		w.End(ErrNotLeading)
	}
	l.questions.End(ErrNotLeading)
}
