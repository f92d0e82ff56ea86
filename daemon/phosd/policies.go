package phosd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/policy"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const (
	// policyInterval is between two looks at what is due.
	policyInterval = 500 * time.Millisecond
	// atOnce is how many programs are saved at a time when all shall be.
	atOnce = 4
)

// errShared means that two programs were told to write one image.
var errShared = errors.New("another program has the same directory; {pid}, {rank} or {job} in its name make it differ")

// policies are the checkpoints that nobody asks for.
type policies struct {
	// turn is held by the one that there may be at a time.
	turn sync.Mutex

	mu sync.Mutex // guards places
	// places are the sessions that write into a directory.
	places map[place]*session
}

// place is a directory, by whatever name.
type place struct{ device, inode uint64 }

// asked is what a worker said of its program, once.
type asked struct {
	policy.Policy
	program policy.Program
	holds   bool
}

// policyOf is what holds for a program; false for nothing, and as long as its worker has not said
// so.
func (d *Daemon) policyOf(s *session) (policy.Policy, bool) {
	if known := s.asked.Load(); known != nil {
		return known.Policy, known.holds
	}
	return policy.Policy{}, false
}

// askPolicy has a worker say what its program's pos.yaml says, which it reads once in its life.
func (d *Daemon) askPolicy(s *session) *asked {
	if known := s.asked.Load(); known != nil {
		return known
	}
	described := s.describe(d.stopping)
	if described == nil {
		return nil
	}
	known := &asked{program: policy.Program{
		PID: s.record.Program.PID, Job: described.GetJobName(), Rank: described.GetRank(), Started: s.record.Started,
	}}
	known.Policy, known.holds = policy.Of(described.GetPolicy(), d.options.Config.Checkpoint.Policy())
	s.asked.Store(known)
	return known
}

// dueAt is when a program shall be saved next; the zero time: never.
func (d *Daemon) dueAt(s *session) time.Time {
	p, holds := d.policyOf(s)
	if !holds || d.options.CPU == nil {
		return time.Time{}
	}
	past := policy.History{Seed: s.record.Session, Known: s.known}
	if noted := s.noted.Load(); noted != nil {
		past.Last, past.Tried, past.Failed = noted.Last, noted.Tried, noted.Error != ""
	}
	return policy.Due(p, past)
}

// followPolicies saves what is due, one program after the other, for as long as phosd runs.
func (d *Daemon) followPolicies() {
	if d.options.CPU == nil {
		return
	}
	tick := time.NewTicker(policyInterval)
	defer tick.Stop()
	for {
		select {
		case <-d.stopping.Done():
			return
		case <-tick.C:
		}
		if s := d.mostOverdue(time.Now()); s != nil {
			_ = d.saveByPolicy(d.stopping, s, false) // it is logged, and shown by --status
		}
	}
}

// mostOverdue is what has waited for its checkpoint for longest; nil when none is due.
func (d *Daemon) mostOverdue(now time.Time) (first *session) {
	var since time.Time
	for _, s := range d.table.all() {
		if s.asked.Load() == nil && s.asking.CompareAndSwap(false, true) {
			// Workers may be slow to answer; nobody waits for them here.
			d.watchers.Go(func() {
				defer s.asking.Store(false)
				d.askPolicy(s)
			})
		}
		due := d.dueAt(s)
		if due.IsZero() || due.After(now) || s.saving.Load() > 0 || first != nil && !due.Before(since) {
			continue
		}
		if s.program.Ended() ||
			d.covered(s, func(above *session) bool { _, holds := d.policyOf(above); return holds }) {
			continue
		}
		first, since = s, due
	}
	return first
}

// covered reports whether a program is saved together with one that has started it.
func (d *Daemon) covered(s *session, counts func(*session) bool) bool {
	return slices.ContainsFunc(d.table.all(), func(above *session) bool {
		return above.record.Program != s.record.Program &&
			proc.Descends(s.record.Program.PID, above.record.Program.PID) &&
			counts(above)
	})
}

// saveByPolicy takes a checkpoint that a policy asks for, with the rights of the program.
func (d *Daemon) saveByPolicy(ctx context.Context, s *session, stop bool) error {
	known := d.askPolicy(s)
	if known == nil {
		return fmt.Errorf("pid %d: its worker does not answer", s.record.Program.PID)
	}
	d.policies.turn.Lock()
	defer d.policies.turn.Unlock()
	return d.saveUnasked(ctx, d.familyOf(s), unasked{
		stop: stop, keep: known.Keep, bandwidth: known.BandwidthBytes,
		open: func(as fsuid.Rights) (*os.File, error) { return openPlace(s, known, as) },
	})
}

// unasked says how programs are saved that have not asked for it.
type unasked struct {
	stop      bool
	keep      int
	bandwidth uint64
	open      func(as fsuid.Rights) (*os.File, error)
}

func (d *Daemon) saveUnasked(ctx context.Context, all family, how unasked) error {
	s := all.members[0]
	for _, each := range all.members {
		if err := d.awaitOther(ctx, each); err != nil {
			return err
		}
	}
	as, err := d.rightsOf(s)
	var dir *os.File
	if err == nil {
		dir, err = how.open(as)
	}
	if err == nil {
		defer dir.Close()
		err = d.policies.claim(d, all, dir)
	}
	id := all.root
	if err != nil {
		d.log.Warn("checkpoint failed", "pid", id.PID, "policy", true, "error", err)
		d.note(all.members, nil, err)
		return err
	}
	_, err = d.checkpoint(ctx, saving{
		actor:    api.Actor{UID: as.UID, GID: as.GID, PID: int32(id.PID), Groups: as.Groups},
		request:  &api.CheckpointBegin{Pids: []uint32{uint32(id.PID)}, Stop: how.stop, BandwidthBytes: how.bandwidth},
		files:    []*os.File{dir},
		as:       as,
		notice:   func(text string) { d.log.Debug("checkpoint by policy", "pid", id.PID, "notice", text) },
		byPolicy: true,
	})
	if err == nil && how.keep > 0 {
		d.prune(context.WithoutCancel(ctx), s, dir, as, how.keep)
	}
	return err
}

// awaitOther waits for the end of a checkpoint that somebody has asked for.
func (d *Daemon) awaitOther(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, d.options.Config.Checkpoint.Deadline())
	defer cancel()
	for s.saving.Load() > 0 {
		select {
		case <-time.After(policyInterval / 10):
		case <-s.gone:
			return proc.ErrGone
		case <-ctx.Done():
			return fmt.Errorf("pid %d: another checkpoint is under way: %w", s.record.Program.PID, ctx.Err())
		}
	}
	return nil
}

func (d *Daemon) prune(ctx context.Context, s *session, dir *os.File, as fsuid.Rights, keep int) {
	opened, err := store.Open(dir, store.As(as.Do))
	if err == nil {
		_, err = opened.Prune(ctx, store.Keep{Newest: keep})
		opened.Close()
	}
	if err != nil {
		d.log.Warn("remove old generations", "pid", s.record.Program.PID, "dir", dir.Name(), "error", err)
	}
}

// rightsOf are those that a program has to files.
func (d *Daemon) rightsOf(s *session) (fsuid.Rights, error) {
	groups, err := s.program.Groups()
	return fsuid.Rights{UID: s.record.Owner.UID, GID: s.record.Owner.GID, Groups: groups}, err
}

// openPlace opens the image's directory of a program's policy.
func openPlace(s *session, known *asked, as fsuid.Rights) (*os.File, error) {
	if known.Own {
		return policy.Open(s.record.Program, as, known.program.Fill(known.Dir))
	}
	// An administrator's own word: it is made and opened as such.
	if err := os.MkdirAll(known.Dir, 0o711); err != nil {
		return nil, err
	}
	base, err := os.Open(known.Dir)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	return policy.OpenShared(base, as, known.program.Name())
}

// claim makes a directory one family's for as long as one of it runs.
func (p *policies) claim(d *Daemon, all family, dir *os.File) error {
	var info unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &info); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places == nil {
		p.places = make(map[place]*session)
	}
	living := d.table.all()
	for at, has := range p.places {
		if !slices.Contains(living, has) {
			delete(p.places, at)
		}
	}
	at := place{info.Dev, info.Ino}
	if has := p.places[at]; has != nil && !all.has(has) {
		return fmt.Errorf("%s: pid %d: %w", dir.Name(), has.record.Program.PID, errShared)
	}
	p.places[at] = all.members[0]
	return nil
}

// saveAtExit saves the programs whose policies say so, before a phosd ends that was told to by a
// signal. They run on.
func (d *Daemon) saveAtExit() {
	if d.options.CPU == nil {
		return
	}
	var saved []family
	for _, s := range d.table.running() {
		known := d.askPolicy(s)
		if known == nil || !known.holds || !known.Has(config.ExitSignal) ||
			slices.ContainsFunc(saved, func(f family) bool { return f.has(s) }) {
			continue
		}
		if d.covered(
			s,
			func(above *session) bool { p, holds := d.policyOf(above); return holds && p.Has(config.ExitSignal) },
		) {
			continue
		}
		saved = append(saved, d.familyOf(s))
		_ = d.saveByPolicy(context.Background(), s, false) // it is logged, and shown by the next phosd
	}
}

// drain saves all programs and stops them: where their policies say so, or else in base, which may
// be nil. Nothing is stopped when it is known beforehand that one of them has no place to go to.
func (d *Daemon) drain(ctx context.Context, base *os.File) (drained []*session, err error) {
	if d.options.CPU == nil {
		return nil, fmt.Errorf("%w: this phosd was built without checkpoints", api.ErrNotBuilt)
	}
	d.table.refuseAll()
	defer func() {
		if err != nil {
			d.table.admitAgain()
		}
	}()
	d.policies.turn.Lock()
	defer d.policies.turn.Unlock()
	var programs []family
	var how []unasked
	var failures []error
	for _, s := range d.table.running() {
		if d.covered(s, func(*session) bool { return true }) ||
			slices.ContainsFunc(programs, func(f family) bool { return f.has(s) }) {
			continue
		}
		one, err := d.howToDrain(s, base)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		programs, how = append(programs, d.familyOf(s)), append(how, one)
	}
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	errs, slots := make([]error, len(programs)), make(chan struct{}, atOnce)
	var crew sync.WaitGroup
	for i, each := range programs {
		crew.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = d.saveUnasked(ctx, each, how[i])
		})
	}
	crew.Wait()
	for i, each := range programs {
		if errs[i] == nil {
			drained = append(drained, each.members...)
			continue
		}
		failures = append(failures, fmt.Errorf("pid %d: %w", each.root.PID, errs[i]))
	}
	return drained, errors.Join(failures...)
}

// howToDrain finds a place for a program.
func (d *Daemon) howToDrain(s *session, base *os.File) (unasked, error) {
	known := d.askPolicy(s)
	switch {
	case known == nil:
		return unasked{}, fmt.Errorf("pid %d: its worker does not answer", s.record.Program.PID)
	case known.holds && known.Has(config.Drain):
		open := func(as fsuid.Rights) (*os.File, error) { return openPlace(s, known, as) }
		return unasked{stop: true, keep: known.Keep, bandwidth: known.BandwidthBytes, open: open}, nil
	case base != nil:
		open := func(as fsuid.Rights) (*os.File, error) { return policy.OpenShared(base, as, known.program.Name()) }
		return unasked{stop: true, open: open}, nil
	}
	return unasked{}, fmt.Errorf(
		"%w: pid %d (%s) has no policy with \"on: [drain]\"; name a directory for such programs by --dir",
		api.ErrProgramsRunning,
		s.record.Program.PID,
		s.record.Command,
	)
}

// family is what one checkpoint of a policy saves: a program with what it has started. Where
// programs that a launcher has started name one directory, it is the launcher with all of them, for
// one image has one tree.
type family struct {
	root    proc.Identity
	members []*session
}

// has reports whether a program is saved with the family.
func (f family) has(s *session) bool {
	return s.record.Program == f.root || proc.Descends(s.record.Program.PID, f.root.PID)
}

// familyOf finds the family of a program whose policy says where to. A launcher is the program's
// user's, and was started under phos itself: a shell from which several programs were started one
// by one was not.
func (d *Daemon) familyOf(s *session) family {
	f := family{s.record.Program, []*session{s}}
	where := d.whereOf(s)
	var others []*session
	for _, other := range d.table.running() {
		if other != s && where != "" && other.record.Owner.UID == s.record.Owner.UID && d.whereOf(other) == where {
			others = append(others, other)
		}
	}
	for pid := proc.Parent(f.root.PID); len(others) > 0 && pid > 1; pid = proc.Parent(pid) {
		above, err := proc.Of(pid)
		if err != nil || !launched(above, s.record.Owner.UID) {
			break
		}
		var rest []*session
		for _, other := range others {
			if proc.Descends(other.record.Program.PID, pid) {
				f.root, f.members = above, append(f.members, other)
			} else {
				rest = append(rest, other)
			}
		}
		others = rest
	}
	return f
}

// launched reports whether a process is a user's, and was started under phos.
func launched(id proc.Identity, uid uint32) bool {
	if owner, err := id.UID(); err != nil || owner != uid {
		return false
	}
	environment, err := id.Environment()
	return err == nil && strings.Contains(environment["LD_PRELOAD"], "libphos.so")
}

// whereOf is the directory that a program's own policy names, as the program would call it; empty
// where there is none.
func (d *Daemon) whereOf(s *session) string {
	known := d.askPolicy(s)
	if known == nil || !known.holds || !known.Own {
		return ""
	}
	mounts, err := s.record.Program.Namespace("mnt")
	if err != nil {
		return ""
	}
	dir := known.program.Fill(known.Dir)
	if !path.IsAbs(dir) {
		from, err := os.Readlink("/proc/" + strconv.Itoa(s.record.Program.PID) + "/cwd")
		if err != nil {
			return ""
		}
		dir = path.Join(from, dir)
	}
	return mounts + " " + path.Clean(dir)
}
