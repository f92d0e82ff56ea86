package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/policy"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// maxParallel is how many programs of a user are saved at a time when all are drained.
const maxParallel = 4

// SaveAtExit saves the programs whose policies say so, when a signal ends phosd. They go on. It
// cancels scheduled checkpoints, which may take their time, and no user waits for another.
func (c *Checkpoints) SaveAtExit() {
	c.boot.Freeze()
	if c.options.CPU == nil {
		return
	}
	c.turns.pause() // until phosd ends
	c.eachUser(c.saveUserAtExit)
}

// eachUser calls a function for the running programs of each user, for all users at the same time.
func (c *Checkpoints) eachUser(call func(running []*sessions.Session)) {
	byUser := make(map[uint32][]*sessions.Session)
	for _, s := range c.sessions.Running() {
		uid := s.Record().Owner.UID
		byUser[uid] = append(byUser[uid], s)
	}
	var users sync.WaitGroup
	for _, running := range byUser {
		users.Go(func() { call(running) })
	}
	users.Wait()
}

// saveUserAtExit is SaveAtExit for the programs of one user.
func (c *Checkpoints) saveUserAtExit(running []*sessions.Session) {
	var saved []family
	for _, s := range running {
		p := c.fetchPolicy(s)
		if p == nil || !p.holds || !p.Has(config.ExitSignal) || anyHas(saved, s) {
			continue
		}
		wants := func(above *sessions.Session) bool {
			p, holds := c.Policy(above)
			return holds && p.Has(config.ExitSignal)
		}
		if c.covered(s, wants) {
			continue
		}
		f := c.familyOf(s)
		saved = append(saved, f)
		_ = c.saveFamily(context.Background(), f, c.endOptions(s, p, false)) // logged, and shown by the next phosd
	}
}

// endOptions say how a program is saved by its policy when phosd ends. The program's own limit of
// the bandwidth is for the time that it runs, and would only keep phosd from ending.
func (c *Checkpoints) endOptions(s *sessions.Session, p *programPolicy, stop bool) familyOptions {
	options := familyOptions{stop: stop, keep: p.Keep, onBoot: p.OnBoot, open: c.opens(s, p)}
	if !p.Own {
		options.bandwidth = p.BandwidthBytes
	}
	return options
}

// beginDrain tells which programs a drain stops: they do not end by themselves. The returned
// function ends that, with the error of the checkpoint.
func (c *Checkpoints) beginDrain(f family, options familyOptions) (end func(err error)) {
	if !options.stop {
		return func(error) {}
	}
	c.boot.Draining(f.root)
	return func(err error) {
		if err != nil {
			c.boot.DrainFailed(f.root)
		}
	}
}

// drainPlan is what is saved of one user at a drain.
type drainPlan struct {
	families []family
	options  []familyOptions
	failures []error
}

// Drain saves all programs and stops them: to the directories of their policies, or below base,
// which may be nil. If it is known in advance that one of them has no directory, none is stopped.
// The caller refuses new programs in the meantime.
func (c *Checkpoints) Drain(ctx context.Context, base *os.File) (drained []*sessions.Session, err error) {
	if c.options.CPU == nil {
		return nil, errNotBuilt
	}
	defer c.turns.pause()()
	var mu sync.Mutex // guards what the users' goroutines append to
	var plans []drainPlan
	var failures []error
	c.eachUser(func(running []*sessions.Session) {
		plan := c.planDrain(running, base)
		mu.Lock()
		defer mu.Unlock()
		plans = append(plans, plan)
		failures = append(failures, plan.failures...)
	})
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	var running sync.WaitGroup
	for _, plan := range plans {
		slots := make(chan struct{}, maxParallel)
		for i, f := range plan.families {
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				err := c.saveFamily(ctx, f, plan.options[i])
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					drained = append(drained, f.members...)
					return
				}
				failures = append(failures, fmt.Errorf("pid %d: %w", f.root.PID, err))
			})
		}
	}
	running.Wait()
	return drained, errors.Join(failures...)
}

// planDrain finds the families of a user's programs, and directories for them.
func (c *Checkpoints) planDrain(running []*sessions.Session, base *os.File) (plan drainPlan) {
	for _, s := range running {
		if c.covered(s, func(*sessions.Session) bool { return true }) || anyHas(plan.families, s) {
			continue
		}
		one, err := c.drainOptions(s, base)
		if err != nil {
			plan.failures = append(plan.failures, err)
			continue
		}
		plan.families, plan.options = append(plan.families, c.familyOf(s)), append(plan.options, one)
	}
	return plan
}

// drainOptions finds a directory for a program.
func (c *Checkpoints) drainOptions(s *sessions.Session, base *os.File) (familyOptions, error) {
	p := c.fetchPolicy(s)
	switch {
	case p == nil:
		return familyOptions{}, noAnswer(s)
	case p.holds && p.Has(config.Drain):
		return c.endOptions(s, p, true), nil
	case base != nil:
		open := func(as fsuid.Rights) (imageDirectory, error) {
			dir, err := policy.OpenShared(base, as, p.program.Name())
			return imageDirectory{File: dir}, err
		}
		return familyOptions{stop: true, onBoot: p.OnBoot, open: open}, nil
	}
	return familyOptions{}, fmt.Errorf(
		"%w: pid %d (%s) has no policy with \"on: [drain]\"; name a directory for such programs by --dir",
		api.ErrProgramsRunning,
		s.PID(),
		s.Record().Command,
	)
}

// anyHas reports whether a program is saved with one of the families.
func anyHas(families []family, s *sessions.Session) bool {
	return slices.ContainsFunc(families, func(f family) bool { return f.has(s) })
}
