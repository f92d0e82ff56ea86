package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/internal/ticks"
)

// attempts is what the node has of launches, and what it shall have.
type attempts struct {
	agent *Agent

	mu    sync.Mutex
	all   map[supervisor.Key]*attempt
	epoch uint64
	// over are launches that have ended, of which attempts are not gone yet.
	over map[string]*api.EndedLaunch
	// report sends reports to the leader; nil: there is no stream.
	report func(*api.Report)
}

func newAttempts(a *Agent) *attempts {
	return &attempts{agent: a, all: map[supervisor.Key]*attempt{}, over: map[string]*api.EndedLaunch{}}
}

// ErrOldEpoch means that a leader that was replaced sends orders.
var ErrOldEpoch = errors.New("the orders are of a leader that was replaced")

// adopt takes over what an earlier agent has left.
func (s *attempts) adopt(ctx context.Context) error {
	text, err := os.ReadFile(s.agent.path("epoch"))
	if err == nil {
		s.epoch, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("epoch of the last order: %w", err)
	}
	keys, err := supervisor.List(s.agent.path("attempts"))
	if err != nil {
		return fmt.Errorf("attempts of an earlier agent: %w", err)
	}
	for _, key := range keys {
		if s.isReleased(key) {
			continue
		}
		t := newAttempt(s, key)
		t.adopted = true
		s.all[key] = t
		go t.runAdopted(ctx)
	}
	return nil
}

// highestEpoch returns the highest epoch of an order.
func (s *attempts) highestEpoch() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

// accept refuses an epoch that is lower than another one was, and keeps a higher one on the disk.
func (s *attempts) accept(epoch uint64) error {
	switch {
	case epoch < s.epoch:
		return fmt.Errorf("%w: epoch %d after %d", ErrOldEpoch, epoch, s.epoch)
	case epoch == s.epoch:
		return nil
	}
	path := s.agent.path("epoch")
	if err := os.WriteFile(path+".new", []byte(strconv.FormatUint(epoch, 10)+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the epoch: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("keep the epoch: %w", err)
	}
	s.epoch = epoch
	return nil
}

// follow makes orders true. It does not wait for that.
func (s *attempts) follow(ctx context.Context, client api.AgentsClient, orders *api.Orders) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.accept(orders.GetEpoch()); err != nil {
		return err
	}
	listed := map[supervisor.Key]bool{}
	for _, order := range orders.GetOrders() {
		key := keyOf(order.GetAttempt())
		listed[key] = true
		t := s.all[key]
		if t == nil {
			s.agent.config.Log.Debug("attempt ordered", "attempt", key, "do", order.GetDo())
			t = newAttempt(s, key)
			s.all[key] = t
			go t.run(ctx, client, order)
		} else {
			t.ordered = &ordered{ctx, client, order}
		}
		t.saves.follow(order)
		t.follow(order)
		s.agent.generations.Note(key.Launch, order.GetGeneration())
		switch launch.Do(order.GetDo()) {
		case launch.Stop:
			t.stop(time.Duration(order.GetGraceMs()) * time.Millisecond)
		case launch.End:
			t.end()
		case launch.Run, launch.Save:
		}
	}
	for _, verdict := range orders.GetVerdicts() {
		if t := s.all[keyOf(verdict.GetAttempt())]; t != nil {
			t.saves.decide(verdict)
		}
	}
	for _, released := range orders.GetReleased() {
		s.release(keyOf(released))
	}
	if orders.GetComplete() {
		for key := range s.all {
			if !listed[key] {
				s.release(key)
			}
		}
		s.forgetOthers(orders)
	}
	if copies := orders.GetCopies(); copies != nil {
		s.agent.copier.Want(copies.GetOrders())
	}
	for _, saved := range orders.GetSaved() {
		go s.agent.discardBefore(saved)
	}
	for _, ended := range orders.GetEnded() {
		s.over[ended.GetLaunch()] = ended
		s.discardIfOver(ended.GetLaunch())
	}
	return nil
}

// keyOf converts the name of an attempt.
func keyOf(a *api.Attempt) supervisor.Key {
	return supervisor.Key{Launch: a.GetLaunch(), Replica: int(a.GetReplica()), Attempt: int(a.GetAttempt())}
}

// find returns an attempt; nil if the node has none that was not released.
func (s *attempts) find(key supervisor.Key) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

// owners returns the accounts of a launch's attempts, as they were ordered.
func (s *attempts) owners(launchID string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, t := range s.all {
		if name := t.saves.owner(); key.Launch == launchID && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// release lets go of an attempt that the leader wants no more. What is left of it is ended.
func (s *attempts) release(key supervisor.Key) {
	if t := s.all[key]; t != nil {
		t.release()
	}
}

// goneOrOrdered forgets an attempt whose preparation has ended with its stream, unless a later
// stream has ordered it again: it returns that order.
func (s *attempts) goneOrOrdered(t *attempt) *ordered {
	s.mu.Lock()
	next := t.ordered
	t.ordered = nil
	s.mu.Unlock()
	if next == nil || next.ctx.Err() != nil {
		s.gone(t)
		return nil
	}
	return next
}

// gone forgets an attempt of which nothing is left but its log.
func (s *attempts) gone(t *attempt) {
	t.endPreparing()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[t.key] == t {
		delete(s.all, t.key)
	}
	s.discardIfOver(t.key.Launch)
	for key := range s.all {
		if key.Launch == t.key.Launch {
			return
		}
	}
	s.agent.generations.Forget(t.key.Launch)
	s.agent.trainings.ForgetTraining(t.key.Launch)
}

// reportTo sends all reports from now on to a stream, until stop is called.
func (s *attempts) reportTo(report func(*api.Report)) (stop func()) {
	s.mu.Lock()
	s.report = report
	s.mu.Unlock()
	for _, r := range s.reports() { // what has changed since Hello
		report(r)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.report = nil
	}
}

// isReporting reports whether there is a stream.
func (s *attempts) isReporting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report != nil
}

// send sends a report, if there is a stream.
func (s *attempts) send(r *api.Report) {
	s.mu.Lock()
	report := s.report
	s.mu.Unlock()
	if report != nil {
		report(r)
	}
}

// reports returns how far all attempts are.
func (s *attempts) reports() (all []*api.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if r := t.last(); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// extend moves the deadlines of all supervisors. One that does not answer holds up no other.
func (s *attempts) extend(ctx context.Context, until time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		go t.extend(ctx, until)
	}
}

// releasedName is the file in a run directory whose attempt the leader wants no more. Only the log
// is kept then.
const releasedName = "released"

// isReleased reports whether the leader wants an attempt no more.
func (s *attempts) isReleased(key supervisor.Key) bool {
	_, err := os.Stat(filepath.Join(s.agent.path("attempts"), key.String(), releasedName))
	return err == nil
}

// Limits of logs that are kept of attempts that have ended.
const (
	keepLogs    = 7 * 24 * time.Hour
	retainEvery = 10 * time.Minute
)

// retain removes the logs of attempts that ended long ago.
func (s *attempts) retain(ctx context.Context) {
	s.removeOld(time.Now().Add(-keepLogs))
	for now := range ticks.Every(ctx, retainEvery) {
		s.removeOld(now.Add(-keepLogs))
	}
}

// removeOld removes run directories that were released before a time.
func (s *attempts) removeOld(before time.Time) {
	paths, _ := filepath.Glob(s.agent.path("attempts", "*", releasedName)) // the pattern is valid
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.ModTime().Before(before) {
			_ = os.RemoveAll(filepath.Dir(path)) // what stays is tried again later
		}
	}
}
