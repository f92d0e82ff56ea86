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

// maxParallel is how many programs are saved at a time when all are drained.
const maxParallel = 4

// SaveAtExit saves the programs whose policies say so, when a signal ends phosd. They go on.
func (c *Checkpoints) SaveAtExit() {
	if c.options.CPU == nil {
		return
	}
	var saved []family
	for _, s := range c.sessions.Running() {
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
		saved = append(saved, c.familyOf(s))
		_ = c.saveByPolicy(context.Background(), s) // logged, and shown by the next phosd
	}
}

// Drain saves all programs and stops them: to the directories of their policies, or below base,
// which may be nil. If it is known in advance that one of them has no directory, none is stopped.
// The caller refuses new programs in the meantime.
func (c *Checkpoints) Drain(ctx context.Context, base *os.File) (drained []*sessions.Session, err error) {
	if c.options.CPU == nil {
		return nil, errNotBuilt
	}
	c.scheduled.Lock()
	defer c.scheduled.Unlock()
	var families []family
	var options []familyOptions
	var failures []error
	for _, s := range c.sessions.Running() {
		if c.covered(s, func(*sessions.Session) bool { return true }) || anyHas(families, s) {
			continue
		}
		one, err := c.drainOptions(s, base)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		families, options = append(families, c.familyOf(s)), append(options, one)
	}
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	errs, slots := make([]error, len(families)), make(chan struct{}, maxParallel)
	var running sync.WaitGroup
	for i, f := range families {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = c.saveFamily(ctx, f, options[i])
		})
	}
	running.Wait()
	for i, f := range families {
		if errs[i] == nil {
			drained = append(drained, f.members...)
			continue
		}
		failures = append(failures, fmt.Errorf("pid %d: %w", f.root.PID, errs[i]))
	}
	return drained, errors.Join(failures...)
}

// drainOptions finds a directory for a program.
func (c *Checkpoints) drainOptions(s *sessions.Session, base *os.File) (familyOptions, error) {
	p := c.fetchPolicy(s)
	switch {
	case p == nil:
		return familyOptions{}, noAnswer(s)
	case p.holds && p.Has(config.Drain):
		open := func(as fsuid.Rights) (*os.File, error) { return openDirectory(s, p, as) }
		return familyOptions{stop: true, keep: p.Keep, bandwidth: p.BandwidthBytes, open: open}, nil
	case base != nil:
		open := func(as fsuid.Rights) (*os.File, error) { return policy.OpenShared(base, as, p.program.Name()) }
		return familyOptions{stop: true, open: open}, nil
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
