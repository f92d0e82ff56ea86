package policy

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
)

// Policy is the policy of one program.
type Policy struct {
	Dir            string
	Every          time.Duration
	Keep           int
	BandwidthBytes uint64
	On             []string
	// OnBoot means that the program is restored after a restart of the machine.
	OnBoot bool
	// Own means that it comes from the program's pos.yaml or PHOS_JOB.
	Own bool
}

// Of returns the policy of a program: its own, by pos.yaml or PHOS_JOB, or the default. It returns
// false if the policy takes no checkpoints.
func Of(said *api.Policy, otherwise config.Policy) (Policy, bool) {
	if said == nil {
		p := Policy{
			Dir: otherwise.Dir, Every: time.Duration(otherwise.Every), Keep: otherwise.Keep,
			BandwidthBytes: uint64(otherwise.Bandwidth), On: otherwise.On, OnBoot: otherwise.OnBoot,
		}
		return p, p.holds()
	}
	p := Policy{
		Dir: said.GetDir(), Every: time.Duration(said.GetEveryMilliseconds()) * time.Millisecond, Keep: int(said.GetKeep()),
		BandwidthBytes: said.GetBandwidthBytes(), On: said.GetOn(), Own: true,
		OnBoot: said.GetRestoreOnBoot(),
	}
	return p, p.holds()
}

func (p Policy) holds() bool { return p.Dir != "" && (p.Every > 0 || len(p.On) > 0) }

// Has reports whether the policy takes a checkpoint at an occasion.
func (p Policy) Has(occasion string) bool { return slices.Contains(p.On, occasion) }

// Message returns the policy for a status reply.
func (p Policy) Message() *api.Policy {
	return &api.Policy{
		Dir: p.Dir, EveryMilliseconds: uint64(p.Every.Milliseconds()), Keep: uint64(p.Keep), BandwidthBytes: p.BandwidthBytes, On: p.On,
		RestoreOnBoot: p.OnBoot,
	}
}

// History is the past of a program's checkpoints.
type History struct {
	// Seed spreads the checkpoints of programs that started together.
	Seed uint64
	// Known is when phosd began to watch the program: its start, or that of this phosd.
	Known time.Time
	// Last is the last checkpoint, Tried the last attempt, Failed whether that failed. They are zero
	// where there was none.
	Last, Tried time.Time
	Failed      bool
}

const (
	// spread: checkpoints come early by up to this part of the interval.
	spread = 10
	// retry is the part of an interval after which a failed attempt is repeated, but at least
	// minRetry.
	retry    = 8
	minRetry = 10 * time.Second
	// catchUp is the time over which checkpoints are spread that became due while no phosd ran.
	catchUp = time.Minute
)

// Due returns when the next checkpoint is due; the zero time: never.
func Due(p Policy, h History) time.Time {
	if p.Every <= 0 || p.Dir == "" {
		return time.Time{}
	}
	var due time.Time
	switch {
	case h.Failed && !h.Tried.IsZero():
		due = h.Tried.Add(min(p.Every, max(p.Every/retry, minRetry)))
	case h.Last.IsZero():
		// The first checkpoint comes early for some, so that programs that started together spread out.
		due = h.Known.Add(p.Every - h.share(p.Every/2, h.Known))
	default:
		due = h.Last.Add(p.Every - h.share(p.Every/spread, h.Last))
	}
	// Programs that are overdue when phosd starts wait a little, each for a different time.
	if earliest := h.Known.Add(h.share(min(catchUp, p.Every), h.Known)); due.Before(earliest) {
		due = earliest
	}
	return due
}

// share returns a pseudo-random part of a time span.
func (h History) share(span time.Duration, at time.Time) time.Duration {
	hash := fnv.New64a()
	fmt.Fprint(hash, h.Seed, at.UnixNano())
	return time.Duration(float64(span) * float64(hash.Sum64()>>11) / (1 << 53))
}

// Program is what a directory's name may refer to.
type Program struct {
	PID     int
	Job     string
	Rank    uint32
	Started time.Time
}

// Fill replaces {job}, {pid} and {rank} in the name of a directory.
func (p Program) Fill(dir string) string {
	return strings.NewReplacer(
		"{job}",
		plain(p.Job),
		"{pid}",
		strconv.Itoa(p.PID),
		"{rank}",
		strconv.FormatUint(uint64(p.Rank), 10),
	).Replace(
		dir,
	)
}

// Name returns a name for a program's directory that no other program of the machine has had.
func (p Program) Name() string {
	return plain(p.Job) + p.NameEnd()
}

// NameEnd returns the end of Name, which does not depend on the job.
func (p Program) NameEnd() string {
	return fmt.Sprintf("-%d-%s", p.PID, p.Started.UTC().Format("20060102T150405"))
}

const maxName = 64

// plain makes a text safe as a part of a file's name.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, text)
	text = strings.TrimLeft(text, ".")
	if len(text) > maxName {
		text = text[:maxName]
	}
	if text == "" {
		return "program"
	}
	return text
}
