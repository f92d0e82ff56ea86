package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// meeting is where a save waits until the saves of all replicas of the launch have come as far.
type meeting struct {
	arrival *api.CutArrival
	verdict chan *api.CutVerdict // has room for one
}

// errNoCut means that the leader has given up a cut.
var errNoCut = errors.New("the replicas were not saved in one cut")

// meet returns what a save of one cut calls when it waits for the others.
func (s *saves) meet(order *api.Order, stop bool, dir string) saver.Meet {
	number := order.GetAsked()
	if stop {
		number = order.GetSave()
	}
	step := uint32(0)
	return func(ctx context.Context, now saver.Arrival) (again bool, err error) {
		step++
		m := &meeting{&api.CutArrival{
			Number: number, Stop: stop, Step: step, Point: now.Point, Busy: now.Busy,
		}, make(chan *api.CutVerdict, 1)}
		if now.Saved != nil {
			image := s.imageOf(ctx, dir, now.Saved)
			m.arrival.Image, m.arrival.ImageKey = image.Image, image.key
			s.setComplete(image)
		}
		return s.await(ctx, m)
	}
}

// await tells the leader where a save waits, and returns what it answers.
func (s *saves) await(ctx context.Context, m *meeting) (again bool, err error) {
	s.setWaits(m)
	defer s.setWaits(nil)
	if m.arrival.GetPoint() == string(ckpt.PointComplete) && s.isOver() { // the order was faster
		return false, nil
	}
	s.attempt.say(func(r *api.Report) {
		// What was said of earlier saves is not about this one.
		r.Arrival, r.SaveError, r.Undone, r.Image, r.ImageKey = m.arrival, "", false, nil, nil
	})
	select {
	case verdict := <-m.verdict:
		if text := verdict.GetFailed(); text != "" {
			return false, fmt.Errorf("%w: %s", errNoCut, text)
		}
		return verdict.GetAgain(), s.holdPackets(m.arrival, verdict)
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// holdPackets cuts the replica off from the others of the cut before it is frozen, and lets packets
// through again when all are cut. Between, nothing is on its way that one end has and the other one
// has not.
func (s *saves) holdPackets(a *api.CutArrival, verdict *api.CutVerdict) error {
	switch {
	case verdict.GetAgain(), a.GetPoint() == string(ckpt.PointCut) && !a.GetStop():
		return s.attempt.connect(true)
	case a.GetPoint() == string(ckpt.PointQuiesced):
		return s.attempt.connect(false)
	}
	return nil
}

// setWaits notes where a save waits; nil: nowhere.
func (s *saves) setWaits(m *meeting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = m
}

// setComplete notes the complete image of a save that is to end the attempt.
func (s *saves) setComplete(image *savedImage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = image
}

// otherOrder ends the wait of a save that an order wants no more. The caller holds the lock.
func (s *saves) otherOrder(order *api.Order) {
	if s.waits == nil {
		return
	}
	a := s.waits.arrival
	wanted := order.GetDo() == string(launch.Run) && order.GetAsked() == a.GetNumber()
	if a.GetStop() {
		wanted = order.GetDo() == string(launch.End) || order.GetDo() == string(launch.Save) && order.GetSave() == a.GetNumber()
	}
	if !wanted {
		s.answer(&api.CutVerdict{Failed: "the leader wants something else by now"})
	}
}

// decide passes a verdict on to the save that waits for it.
func (s *saves) decide(v *api.CutVerdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == nil {
		return
	}
	a := s.waits.arrival
	if a.GetNumber() == v.GetNumber() && a.GetStop() == v.GetStop() && (a.GetStep() == v.GetStep() || v.GetFailed() != "") {
		s.answer(v)
	}
}

// answer gives a verdict to the save that waits. The caller holds the lock.
func (s *saves) answer(v *api.CutVerdict) {
	select {
	case s.waits.verdict <- v:
	default: // it has one
	}
}

// end lets a save that has its complete image end the attempt. It returns false if none waits for
// that.
func (s *saves) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == nil || s.waits.arrival.GetPoint() != string(ckpt.PointComplete) {
		return s.image != nil
	}
	s.answer(&api.CutVerdict{})
	return true
}

// isOver reports whether the cut is complete, so that the attempt is to end.
func (s *saves) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.GetDo() == string(launch.End)
}
