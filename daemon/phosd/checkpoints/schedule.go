package checkpoints

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/policy"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// scheduleInterval is between two looks at what is due.
const scheduleInterval = 500 * time.Millisecond

// programPolicy is the policy of one program.
type programPolicy struct {
	policy.Policy
	program policy.Program
	// holds is false if nothing is scheduled for the program.
	holds bool
}

// policyFrom makes a program's policy of its worker's description.
func (c *Checkpoints) policyFrom(s *sessions.Session, described *api.Description) *programPolicy {
	p := &programPolicy{program: policy.Program{
		PID: s.PID(), Job: described.GetJobName(), Rank: described.GetRank(), Started: s.Record().Started,
	}}
	p.Policy, p.holds = policy.Of(described.GetPolicy(), c.config.Policy())
	return p
}

// Policy returns the policy of a program; false if there is none, or if it is not known yet.
func (c *Checkpoints) Policy(s *sessions.Session) (policy.Policy, bool) {
	described := s.Settings()
	if described == nil {
		return policy.Policy{}, false
	}
	p := c.policyFrom(s, described)
	return p.Policy, p.holds
}

// fetchPolicy asks the worker for the policy if it is not known yet; nil if it does not answer.
func (c *Checkpoints) fetchPolicy(s *sessions.Session) *programPolicy {
	described := s.AwaitSettings(c.options.Life)
	if described == nil {
		return nil
	}
	return c.policyFrom(s, described)
}

// Due returns when a program's next checkpoint is due; the zero time: never.
func (c *Checkpoints) Due(s *sessions.Session) time.Time {
	p, holds := c.Policy(s)
	if !holds || c.options.CPU == nil {
		return time.Time{}
	}
	past := policy.History{Seed: s.Record().Session, Known: s.Since()}
	if last := s.Checkpoint(); last != nil {
		past.Last, past.Tried, past.Failed = last.Last, last.Tried, last.Error != ""
	}
	return policy.Due(p, past)
}

// RunSchedule takes the checkpoints that are due until Options.Life ends.
func (c *Checkpoints) RunSchedule() {
	if c.options.CPU == nil {
		return
	}
	var checkpoints sync.WaitGroup
	defer checkpoints.Wait()
	tick := time.NewTicker(scheduleInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.options.Life.Done():
			return
		case <-tick.C:
		}
		c.sessions.FetchSettings() // in the background, because workers may be slow to answer
		for _, due := range c.overdue(time.Now()) {
			ctx, done := c.turns.take(c.options.Life, due.session, due.limited, due.since)
			if done == nil {
				continue
			}
			checkpoints.Go(func() {
				defer done()
				_ = c.saveByPolicy(ctx, due.session) // logged, and shown by --status
			})
		}
	}
}

// dueProgram is a program whose checkpoint is due.
type dueProgram struct {
	session *sessions.Session
	since   time.Duration
	limited bool // its policy limits the bandwidth
}

// overdue returns the programs whose checkpoints are due, the longest overdue first.
func (c *Checkpoints) overdue(now time.Time) (all []dueProgram) {
	for _, s := range c.sessions.All() {
		due := c.Due(s)
		if due.IsZero() || due.After(now) || s.CheckpointRunning() || s.ProgramEnded() ||
			c.covered(s, func(above *sessions.Session) bool { _, holds := c.Policy(above); return holds }) {
			continue
		}
		p, _ := c.Policy(s)
		all = append(all, dueProgram{s, now.Sub(due), p.BandwidthBytes > 0})
	}
	slices.SortFunc(all, func(a, b dueProgram) int { return cmp.Compare(b.since, a.since) })
	return all
}

// covered reports whether a program is saved together with one of its ancestors.
func (c *Checkpoints) covered(s *sessions.Session, counts func(*sessions.Session) bool) bool {
	return slices.ContainsFunc(c.sessions.All(), func(above *sessions.Session) bool {
		return above.Record().Program != s.Record().Program && proc.Descends(s.PID(), above.PID()) && counts(above)
	})
}

// saveByPolicy takes the checkpoint of a program's policy, with the rights of the program.
func (c *Checkpoints) saveByPolicy(ctx context.Context, s *sessions.Session) error {
	p := c.fetchPolicy(s)
	if p == nil {
		return noAnswer(s)
	}
	return c.saveFamily(ctx, c.familyOf(s), familyOptions{
		keep: p.Keep, bandwidth: p.BandwidthBytes, onBoot: p.OnBoot, open: c.opens(s, p),
		// It may have been saved with another program of its family in the meantime.
		unwanted: func() bool { return c.Due(s).After(time.Now()) },
	})
}

func noAnswer(s *sessions.Session) error {
	return fmt.Errorf("pid %d: its worker does not answer", s.PID())
}

// familyOptions say how a family is saved without a request of its user.
type familyOptions struct {
	stop      bool
	keep      int // generations; 0: all
	bandwidth uint64
	onBoot    bool // restore it after a restart of the machine
	open      func(as fsuid.Rights) (imageDirectory, error)
	// unwanted reports whether the checkpoint has become unnecessary; nil: it has not.
	unwanted func() bool
}

// saveFamily takes the checkpoint of a family, once none of its programs is being saved.
func (c *Checkpoints) saveFamily(ctx context.Context, f family, options familyOptions) error {
	s := f.members[0]
	for _, member := range f.members {
		if err := c.awaitCheckpoint(ctx, member); err != nil {
			return err
		}
	}
	if options.unwanted != nil && options.unwanted() {
		return nil
	}
	as, err := s.Rights()
	var dir imageDirectory
	if err == nil {
		dir, err = options.open(as)
	}
	if err == nil {
		defer dir.close()
		err = c.directories.claim(c.sessions, f, dir.File)
	}
	pid := f.root.PID
	if err != nil {
		c.log.Warn("checkpoint failed", "pid", pid, "policy", true, "error", err)
		c.recordFailure(f.members, err)
		return err
	}
	endDrain := c.beginDrain(f, options)
	done, err := c.checkpoint(ctx, Request{
		Caller: api.Caller{UID: as.UID, GID: as.GID, Groups: as.Groups, Process: f.root},
		Begin: &api.CheckpointBegin{
			Stop: options.stop, BandwidthBytes: options.bandwidth,
		},
		Roots:    []proc.Identity{f.root},
		Files:    []*os.File{dir.File},
		rights:   as,
		shared:   dir.user,
		Notice:   func(text string) { c.log.Debug("checkpoint notice", "pid", pid, "notice", text) },
		byPolicy: true,
	})
	endDrain(err)
	if err != nil {
		c.removeEmpty(f, dir)
		return err
	}
	// The container of a program is gone after a restart.
	c.boot.Saved(f.root, as, pathOf(dir.File), options.onBoot && !done.Manifest.Contained)
	if options.keep > 0 {
		c.prune(context.WithoutCancel(ctx), s, dir.File, as, options.keep)
	}
	return nil
}

// awaitCheckpoint waits for the end of a checkpoint in flight.
func (c *Checkpoints) awaitCheckpoint(ctx context.Context, s *sessions.Session) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Deadline())
	defer cancel()
	for s.CheckpointRunning() {
		select {
		case <-time.After(scheduleInterval / 10):
		case <-s.Ended():
			return proc.ErrGone
		case <-ctx.Done():
			return fmt.Errorf("pid %d: another checkpoint is in flight: %w", s.PID(), ctx.Err())
		}
	}
	return nil
}

// prune removes all generations but the newest keep.
func (c *Checkpoints) prune(ctx context.Context, s *sessions.Session, dir *os.File, as fsuid.Rights, keep int) {
	opened, err := store.Open(dir, store.As(as.Do))
	if err == nil {
		_, err = opened.Prune(ctx, store.Keep{Newest: keep})
		opened.Close()
	}
	if err != nil {
		c.log.Warn("remove old generations", "pid", s.PID(), "dir", dir.Name(), "error", err)
	}
}
