package serve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/logs"
	"github.com/phos-gpu/phos/cluster/control/session"
)

// merge brings the lines of several logs in the order of their times. A log that lags behind holds
// the others up for a short time only: lines that come later than that are sent when they come.
type merge struct{ streams []*logStream }

// logStream is the log of one attempt.
type logStream struct {
	source   source
	wanted   *api.LogQuestion
	kept     *logs.Store
	question *session.Question
	err      error // why no more lines come
	lines    []*api.LogLine
	begun    bool // there were lines
	ended    bool
}

func newMerge() *merge { return &merge{} }

// add adds a log.
func (m *merge) add(s *logStream) { m.streams = append(m.streams, s) }

// empty reports whether all logs have ended.
func (m *merge) empty() bool {
	return !slices.ContainsFunc(m.streams, func(s *logStream) bool { return !s.ended || len(s.lines) > 0 })
}

// patienceOfMerge is how long lines wait for those of other logs.
const patienceOfMerge = 100 * time.Millisecond

// maxLines is how many lines go into one reply.
const maxLines = 1000

// drain sends lines until all logs have ended, or wake has a value.
func (m *merge) drain(ctx context.Context, wake <-chan struct{}, send func(*api.LogsReply) error) error {
	for !m.empty() {
		got, woken, err := m.collect(ctx, wake, send)
		if err != nil {
			return err
		}
		if err := m.flush(send, got); err != nil {
			return err
		}
		if woken {
			return nil
		}
	}
	return nil
}

// collect takes what logs have, for a short time. It reports whether any log has ended or sent
// something, and whether wake had a value.
func (m *merge) collect(ctx context.Context, wake <-chan struct{}, send func(*api.LogsReply) error) (all, woken bool, err error) {
	timer := time.NewTimer(patienceOfMerge)
	defer timer.Stop()
	for _, s := range m.streams {
		for len(s.lines) == 0 && !s.ended {
			if s.err != nil {
				s.ended = true
				if err := send(&api.LogsReply{Notice: s.notice(s.err)}); err != nil {
					return false, false, err
				}
				break
			}
			select {
			case part := <-s.question.Parts():
				err = s.take(part, send)
			case <-s.question.Done():
				err = s.finish(send)
			case <-timer.C:
				return false, false, nil
			case <-wake:
				return false, true, nil
			case <-ctx.Done():
				err = ctx.Err()
			}
			if err != nil {
				return false, false, err
			}
		}
	}
	return true, false, nil
}

// take adds what a node has sent.
func (s *logStream) take(part *api.AnswerPart, send func(*api.LogsReply) error) error {
	s.add(part)
	if part.GetError() == "" {
		return nil
	}
	return send(&api.LogsReply{Notice: s.notice(api.Invalid(part.GetError()))})
}

// add adds lines.
func (s *logStream) add(part *api.AnswerPart) {
	s.begun = s.begun || len(part.GetLines()) > 0
	for _, line := range part.GetLines() {
		line.Job, line.Replica, line.Attempt = s.source.job, uint32(s.source.index), uint32(s.source.attempt)
		s.lines = append(s.lines, line)
	}
}

// finish takes what is left when a node has sent everything, or has fallen silent.
func (s *logStream) finish(send func(*api.LogsReply) error) error {
	for {
		select {
		case part := <-s.question.Parts():
			if err := s.take(part, send); err != nil {
				return err
			}
			continue
		default:
		}
		if s.err = s.question.Err(); s.err == nil {
			s.ended = true
		} else if errors.Is(s.err, session.ErrNodeSilent) && !s.begun {
			s.fromKept()
		}
		return nil
	}
}

// flush sends lines in the order of time: if every log has lines, up to the first time at which one
// of them has none; otherwise all.
func (m *merge) flush(send func(*api.LogsReply) error, complete bool) error {
	var lines []*api.LogLine
	for {
		first := m.earliest()
		if first == nil {
			break
		}
		lines = append(lines, first.lines[0])
		first.lines = first.lines[1:]
		if complete && len(first.lines) == 0 && !first.ended || len(lines) == maxLines {
			break
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return send(&api.LogsReply{Lines: lines})
}

// earliest returns the log with the earliest line; nil if none has lines.
func (m *merge) earliest() (first *logStream) {
	for _, s := range m.streams {
		if len(s.lines) > 0 && (first == nil || s.lines[0].GetUnixNs() < first.lines[0].GetUnixNs()) {
			first = s
		}
	}
	return first
}
