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

// Policy is what holds for one program.
type Policy struct {
	Dir            string
	Every          time.Duration
	Keep           int
	BandwidthBytes uint64
	On             []string
	// Own says that the program's pos.yaml has it.
	Own bool
}

// Of is the policy of a program that a worker describes; false when there is none.
func Of(said *api.Policy, otherwise config.Policy) (Policy, bool) {
	if said == nil {
		p := Policy{
			Dir: otherwise.Dir, Every: time.Duration(otherwise.Every), Keep: otherwise.Keep,
			BandwidthBytes: uint64(otherwise.Bandwidth), On: otherwise.On,
		}
		return p, p.holds()
	}
	p := Policy{
		Dir: said.GetDir(), Every: time.Duration(said.GetEveryMilliseconds()) * time.Millisecond, Keep: int(said.GetKeep()),
		BandwidthBytes: said.GetBandwidthBytes(), On: said.GetOn(), Own: true,
	}
	return p, p.holds()
}

func (p Policy) holds() bool { return p.Dir != "" && (p.Every > 0 || len(p.On) > 0) }

// Has reports whether an occasion is one of the policy's.
func (p Policy) Has(moment string) bool { return slices.Contains(p.On, moment) }

// Message is the policy for whoever asks.
func (p Policy) Message() *api.Policy {
	return &api.Policy{
		Dir: p.Dir, EveryMilliseconds: uint64(p.Every.Milliseconds()), Keep: uint64(p.Keep), BandwidthBytes: p.BandwidthBytes, On: p.On,
	}
}

// History is what has become of a program's checkpoints.
type History struct {
	// Seed tells programs apart: those that have different ones are not saved at the same moment.
	Seed uint64
	// Known is since when the program is looked after: its start, or that of this phosd.
	Known time.Time
	// Last is the last checkpoint, Tried the last attempt, Failed whether that failed. They are zero
	// where there was none.
	Last, Tried time.Time
	Failed      bool
}

const (
	// spread is the part of an interval over which programs are spread.
	spread = 10
	// retry is the part of an interval after which a failed attempt is repeated, but no sooner than
	// retryAtLeast.
	retry        = 8
	retryAtLeast = 10 * time.Second
	// catchUp is the time over which checkpoints are spread that became due while no phosd ran.
	catchUp = time.Minute
)

// Due is when the next checkpoint shall be taken; the zero time: never.
func Due(p Policy, h History) time.Time {
	if p.Every <= 0 || p.Dir == "" {
		return time.Time{}
	}
	var due time.Time
	switch {
	case h.Failed && !h.Tried.IsZero():
		due = h.Tried.Add(min(p.Every, max(p.Every/retry, retryAtLeast)))
	case h.Last.IsZero():
		// The first comes early for some, so that programs that began together part.
		due = h.Known.Add(p.Every - h.share(p.Every/2, h.Known))
	default:
		due = h.Last.Add(p.Every - h.share(p.Every/spread, h.Last))
	}
	// What is overdue when a program becomes known waits a little, each its own time.
	if earliest := h.Known.Add(h.share(min(catchUp, p.Every), h.Known)); due.Before(earliest) {
		due = earliest
	}
	return due
}

// share is a part of a time span that differs between programs and from time to time.
func (h History) share(span time.Duration, at time.Time) time.Duration {
	hash := fnv.New64a()
	fmt.Fprint(hash, h.Seed, at.UnixNano())
	return time.Duration(float64(span) * float64(hash.Sum64()>>11) / (1 << 53))
}

// Program is what a directory may be named after.
type Program struct {
	PID     int
	Job     string
	Rank    uint32
	Started time.Time
}

// Fill puts what {job}, {pid} and {rank} stand for into the name of a directory.
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

// Name is that of a program's directory among those of others. No other program of the machine has
// had it.
func (p Program) Name() string {
	return fmt.Sprintf("%s-%d-%s", plain(p.Job), p.PID, p.Started.UTC().Format("20060102T150405"))
}

const longestName = 64

// plain is a text that is good as a part of a file's name.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, text)
	text = strings.TrimLeft(text, ".")
	if len(text) > longestName {
		text = text[:longestName]
	}
	if text == "" {
		return "program"
	}
	return text
}
