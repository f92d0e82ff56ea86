package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// saves decides when an attempt is saved, and keeps what has come of that. Orders come from the
// leader's stream; one goroutine makes the saves.
type saves struct {
	attempt *attempt
	// ordered is closed when a save is ordered that ends the attempt.
	ordered chan struct{}
	// changed has a value when there is another order.
	changed chan struct{}

	mu    sync.Mutex // guards what follows
	order *api.Order
	last  uint32    // the number of the last ordered save that was made or has failed
	asked uint32    // how often a save was asked for, as far as one was made or has failed
	next  time.Time // when the next save by the policy is due
	// image is what has ended the attempt.
	image *savedImage
	// complete is the image of a save that waits for the order to end, or has waited.
	complete *savedImage
	// waits is where a save waits for the others of its cut; nil: nowhere.
	waits *meeting
}

// savedImage is an image of an attempt, and the key that seals it.
type savedImage struct {
	*api.Image
	key []byte
}

// into puts an image into a report.
func (i *savedImage) into(r *api.Report) { r.Image, r.ImageKey = i.Image, i.key }

// errAgentEnded is why a save that an earlier agent has begun is undone.
var errAgentEnded = errors.New("its agent has ended during the save")

func newSaves(t *attempt) *saves {
	return &saves{attempt: t, ordered: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// follow notes the last order.
func (s *saves) follow(order *api.Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.order == nil
	if first && (!s.attempt.adopted || order.GetTogether()) {
		s.asked = order.GetAsked() // what was asked before it began is made
	}
	s.order = order
	s.otherOrder(order)
	if first && s.attempt.adopted && order.GetTogether() && (order.GetAsked() > 0 || order.GetDo() == string(launch.Save)) {
		go s.attempt.say(func(r *api.Report) { // a cut with this attempt may wait for it
			r.Asked, r.Save, r.SaveError, r.Undone = order.GetAsked(), order.GetSave(), errAgentEnded.Error(), true
		})
	}
	if order.GetDo() == string(launch.Save) && !order.GetTogether() && !isClosed(s.ordered) {
		close(s.ordered)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// owner returns the account that the last order names.
func (s *saves) owner() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.GetOwner()
}

// number returns the number of the last ordered save.
func (s *saves) number() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.GetSave()
}

// wanted returns the order, whether a save that ends the attempt is wanted now, and when the next
// one by the policy is due; the zero time: never.
func (s *saves) wanted() (order *api.Order, now bool, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	order = s.order
	every := time.Duration(order.GetCheckpoint().GetEveryMs()) * time.Millisecond
	if every > 0 && s.next.IsZero() {
		s.next = time.Now().Add(every)
	}
	if every > 0 {
		due = s.next
	}
	if order.GetAsked() > s.asked {
		due = time.Now()
	}
	return order, order.GetDo() == string(launch.Save) && order.GetSave() > s.last, due
}

// made notes that a save was made, or has failed.
func (s *saves) made(order *api.Order, stop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop {
		s.last = order.GetSave()
	}
	s.asked = max(s.asked, order.GetAsked())
	s.next = time.Time{}
}

// run makes the saves until the attempt has ended.
func (s *saves) run(started *supervisor.Attempt, done <-chan struct{}) {
	for {
		order, now, due := s.wanted()
		if now {
			s.save(started, order, true, done)
			continue
		}
		var timer <-chan time.Time
		if !due.IsZero() {
			timer = time.After(time.Until(due))
		}
		select {
		case <-timer:
			s.save(started, order, false, done)
		case <-s.changed:
		case <-done:
			return
		}
	}
}

// save makes one save, and reports what has come of it. One that ends the attempt is not given up
// because of that end.
func (s *saves) save(started *supervisor.Attempt, order *api.Order, stop bool, done <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		ended := done
		if stop && !order.GetTogether() {
			ended = nil
		}
		select {
		case <-ended:
			if s.isOver() { // by this save
				<-ctx.Done()
			}
		case <-s.attempt.stopping:
		case <-ctx.Done():
		}
		cancel()
	}()
	image, err := s.take(ctx, started, order, stop)
	s.made(order, stop)
	if err != nil {
		s.attempt.reconnect() // it runs on
		s.attempt.set.agent.config.Log.Warn("attempt not saved", "attempt", s.attempt.key, "error", err)
	}
	s.attempt.say(func(r *api.Report) {
		if stop {
			r.Save = order.GetSave()
		}
		r.Asked, r.Arrival, r.Undone = order.GetAsked(), nil, errors.Is(err, errNoCut) || order.GetTogether() && isClosed(done)
		if r.SaveError = ""; err != nil {
			r.SaveError = err.Error()
		} else if !stop {
			image.into(r) // one that ends the attempt is told with the end
		}
	})
	switch {
	case stop && err == nil:
		s.mu.Lock()
		s.image = image
		s.mu.Unlock()
		<-done
	case stop && s.isOver():
		s.attempt.stop(0) // the cut is complete, and what runs is not part of it
	}
}

// take has an image taken of an attempt.
func (s *saves) take(
	ctx context.Context, started *supervisor.Attempt, order *api.Order, stop bool,
) (*savedImage, error) {
	a, together := s.attempt.set.agent, order.GetTogether()
	if !together { // those of a cut need each other's turns
		select {
		case a.turn <- struct{}{}:
			defer func() { <-a.turn }()
		case <-ctx.Done():
			return nil, errors.New("the attempt has ended")
		}
	}
	o, err := a.lookUp(order.GetOwner())
	if err != nil {
		return nil, err
	}
	dir, err := a.imageDir(s.attempt.key, o, order.GetCheckpoint())
	if err != nil {
		return nil, err
	}
	root, err := s.root(ctx, started)
	if err != nil {
		return nil, err
	}
	if stop && !together {
		if err := s.intend(started, dir); err != nil {
			return nil, err
		}
	}
	saved, err := saver.Save(ctx, o.rights(), saver.SaveOrder{
		Socket: a.phosd(), Root: root, Dir: dir, Stop: stop, Keep: int(order.GetCheckpoint().GetKeep()),
		Together: together, Needed: order.GetNeeded(), Connections: connectionsOf(order),
	}, s.meet(order, stop, dir))
	if err != nil {
		_ = os.Remove(filepath.Join(started.Directory(), intentName)) // an ended attempt has none
		return nil, err
	}
	return s.imageOf(ctx, dir, &saved), nil
}

// imageOf returns the image of a save.
func (s *saves) imageOf(ctx context.Context, dir string, saved *saver.Saved) *savedImage {
	image := s.describe(ctx, dir, saved.Generation, saved.At)
	image.Bytes, image.WrittenBytes, image.PauseUs = saved.Bytes, saved.Written, uint64(saved.Pause.Microseconds())
	return image
}

// describe returns an image of the attempt.
func (s *saves) describe(ctx context.Context, dir string, generation uint64, at time.Time) *savedImage {
	t := s.attempt
	image := &savedImage{Image: &api.Image{
		Replica: uint32(t.key.Replica), Attempt: uint32(t.key.Attempt), Node: t.set.agent.config.Node,
		Dir: dir, Generation: generation, UnixMs: at.UnixMilli(), Work: t.work,
		Shared: filepath.Dir(dir) != t.set.agent.path("images"),
	}}
	var err error
	if image.key, err = saver.ExportKey(ctx, t.set.agent.phosd()); err != nil {
		t.set.agent.config.Log.Warn("image is for this node only", "attempt", t.key, "error", err)
	}
	return image
}

// root returns the root of the process tree of an attempt.
func (s *saves) root(ctx context.Context, started *supervisor.Attempt) (proc.Identity, error) {
	status, err := started.Status(ctx)
	if err != nil {
		return proc.Identity{}, err
	}
	if from, restored := restoreOf(started); restored {
		return s.restoredRoot(ctx, from)
	}
	pids := status.Pids()
	switch {
	case status.Trunk.PID != 0:
		return status.Trunk, nil
	case len(pids) == 0:
		return proc.Identity{}, errors.New("its process has ended")
	case len(status.Processes) > 1:
		return proc.Identity{}, fmt.Errorf("its %d processes were started by an earlier phos, and not as one tree", len(status.Processes))
	}
	return pids[0], nil
}

// restoredRoot returns the root of a tree that was restored.
func (s *saves) restoredRoot(ctx context.Context, from saver.RestoreOrder) (proc.Identity, error) {
	told, found := awaitRestored(from, ctx.Done())
	if !found || told.Error != "" {
		return proc.Identity{}, errors.New("it has not been restored")
	}
	return told.Root, nil
}

// intentName is the file in a run directory that says that a save was begun which ends the attempt.
const intentName = "save.json"

// intent is what that file has.
type intent struct {
	Dir string `json:"dir"`
	// Before is the newest generation before the save.
	Before uint64 `json:"before"`
}

// intend notes that a save begins which ends the attempt, for the next agent.
func (s *saves) intend(started *supervisor.Attempt, dir string) error {
	text, err := json.Marshal(intent{dir, newest(dir)})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(started.Directory(), intentName), text, 0o600)
}

// newest returns the newest generation in an image directory; 0: there is none.
func newest(dir string) uint64 {
	opened, err := openImage(dir)
	if err != nil {
		return 0
	}
	defer opened.Close()
	generation, _ := opened.Newest() // 0 with an error
	return generation
}

// openImage opens an image directory.
func openImage(dir string) (*store.Dir, error) {
	file, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return store.Open(file)
}

// endedBy returns the image that has ended the attempt; nil: none has. An earlier agent may have
// taken it, and not have learnt of its end.
func (s *saves) endedBy(status *supervisor.Status) *savedImage {
	s.mu.Lock()
	image := s.image
	if image == nil && s.order.GetDo() == string(launch.End) {
		image = s.complete
	}
	s.mu.Unlock()
	runs := s.attempt.started()
	if image != nil || runs == nil || status.Reason != supervisor.Failed {
		return image
	}
	text, err := os.ReadFile(filepath.Join(runs.Directory(), intentName))
	var begun intent
	if err != nil || json.Unmarshal(text, &begun) != nil || !killed(status) {
		return nil
	}
	opened, err := openImage(begun.Dir)
	if err != nil {
		return nil
	}
	defer opened.Close()
	manifest, err := opened.Inspect(0)
	if err != nil || manifest.Generation <= begun.Before {
		return nil
	}
	image = s.describe(context.Background(), begun.Dir, manifest.Generation, manifest.Created)
	image.WrittenBytes, image.PauseUs = manifest.Stats.WrittenBytes, manifest.Stats.PauseMicroseconds
	return image
}

// killed reports whether the processes of an attempt that had not succeeded before were killed, as
// at the end of a save.
func killed(status *supervisor.Status) bool {
	found := false
	for _, exit := range status.Exits() {
		if exit.OK() {
			continue
		}
		if found = exit.Signal == int(unix.SIGKILL) && !exit.OutOfMemory && !exit.Stopped; !found {
			return false
		}
	}
	return found
}
