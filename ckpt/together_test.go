package ckpt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
)

// meetings makes the cuts of some plays one, in one process. A turn is one meeting.
type meetings struct {
	plays []*play
	turns chan arrival
	// log has the points of the meetings, with "again" after those that were in vain.
	log []string
}

// arrival is one play at a point.
type arrival struct {
	ckpt.Arrival
	answer chan error
}

// join makes a play one of those that are cut together.
func (m *meetings) join(p *play) {
	m.plays = append(m.plays, p)
	p.order.Hold = nil
	p.order.Meet = func(ctx context.Context, now ckpt.Arrival) error {
		mine := arrival{now, make(chan error, 1)}
		select {
		case m.turns <- mine:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case err := <-mine.answer:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lead answers until the context ends.
func (m *meetings) lead(ctx context.Context, t *testing.T) {
	for {
		var there []arrival
		for range m.plays {
			select {
			case <-ctx.Done():
				return
			case one := <-m.turns:
				there = append(there, one)
			}
		}
		var verdict error
		text := string(there[0].At)
		for _, one := range there {
			if one.At != there[0].At {
				t.Errorf("one is at %s, another at %s", one.At, there[0].At)
			}
			if one.Busy != nil {
				verdict = fmt.Errorf("%w: another one is busy", ckpt.ErrBusy)
			}
		}
		if verdict != nil {
			text += " again"
		}
		m.log = append(m.log, text)
		for _, one := range there {
			one.answer <- verdict
		}
	}
}

// take takes all checkpoints at once, and returns their errors. If one fails, all are cancelled.
func (m *meetings) take(t *testing.T) []error {
	ctx, cancel := context.WithCancel(t.Context())
	led := make(chan struct{})
	go func() { defer close(led); m.lead(ctx, t) }()
	failures := make([]error, len(m.plays))
	ended := make(chan int)
	for i, p := range m.plays {
		go func() {
			if _, failures[i] = ckpt.Checkpoint(p.ctx, p.order); failures[i] != nil {
				for _, other := range m.plays {
					other.cancel()
				}
			}
			ended <- i
		}()
	}
	for range m.plays {
		<-ended
	}
	cancel()
	<-led
	return failures
}

// TestTogether: checkpoints that make one cut do each step together. If one is busy, all undo the
// attempt and try again.
func TestTogether(t *testing.T) {
	for _, test := range []struct {
		fault string
		stop  bool
		want  []string
	}{
		{"", false, []string{"ready", "quiesced", "frozen", "cut"}},
		{"", true, []string{"ready", "quiesced", "frozen", "cut", "complete"}},
		{"quiesce gpu 2#1", false, []string{"ready", "quiesced again", "quiesced", "frozen", "cut"}},
		{"freeze 2#1", false, []string{"ready", "quiesced", "frozen again", "quiesced", "frozen", "cut"}},
		{"dump 1#1", true, []string{"ready", "quiesced", "frozen", "cut again", "quiesced", "frozen", "cut", "complete"}},
	} {
		m := &meetings{turns: make(chan arrival)}
		for i := range 3 {
			wrong := fault{}
			if i == 1 {
				wrong = fault{test.fault, "busy"}
			}
			p := newPlay(t, t.TempDir(), wrong)
			p.order.Stop = test.stop
			m.join(p)
		}
		if err := errors.Join(m.take(t)...); err != nil {
			t.Errorf("%q: %v", test.fault, err)
		}
		if !slices.Equal(m.log, test.want) {
			t.Errorf("%q: they met at %q, want %q", test.fault, m.log, test.want)
		}
		for _, p := range m.plays {
			p.closed = nil
			if want := map[bool]int{false: 0, true: 2}[test.stop]; len(p.ended) != want {
				t.Errorf("%q: %d trees were ended, want %d", test.fault, len(p.ended), want)
			}
			p.ended = nil
			p.checkUndone()
		}
	}
}

// TestTogetherFails: if one of the checkpoints fails, none ends its programs.
func TestTogetherFails(t *testing.T) {
	for _, call := range []string{"quiesce gpu 1#1", "freeze 2#1", "dump 1#1", "finish gpu 1#1", "seal#1"} {
		m := &meetings{turns: make(chan arrival)}
		for i := range 2 {
			wrong := fault{}
			if i == 1 {
				wrong = fault{call, "error"}
			}
			p := newPlay(t, t.TempDir(), wrong)
			p.order.Stop = true
			m.join(p)
		}
		failures := m.take(t)
		if failures[0] == nil || !errors.Is(failures[1], errFault) {
			t.Errorf("%s: they ended with %v", call, failures)
		}
		for _, p := range m.plays {
			if len(p.ended) > 0 {
				t.Errorf("%s: %v were ended", call, p.ended)
			}
			p.checkUndone()
		}
	}
}

// TestNoEnd: programs whose cut is not completed by the others run on.
func TestNoEnd(t *testing.T) {
	p := newPlay(t, t.TempDir(), fault{})
	p.order.Stop, p.order.Hold = true, nil
	p.order.Meet = func(_ context.Context, now ckpt.Arrival) error {
		if now.At != ckpt.PointComplete {
			return nil
		}
		if now.Saved.Manifest.Generation != 1 {
			t.Errorf("at its end it says %+v", now.Saved)
		}
		return errFault
	}
	if _, err := ckpt.Checkpoint(p.ctx, p.order); !errors.Is(err, errFault) {
		t.Errorf("it ended with %v", err)
	}
	if len(p.ended) > 0 {
		t.Errorf("%v were ended", p.ended)
	}
	p.checkUndone()
}
