package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrCapturing is returned while a stream is being captured: a capture cannot be saved.
var ErrCapturing = errors.New("a stream is being captured")

// ErrUnsavable is returned if the session holds something that no checkpoint can have.
var ErrUnsavable = errors.New("cannot be saved")

// ErrBusy is returned while calls, work or host functions are in flight.
var ErrBusy = errors.New("calls are still in flight")

// Quiet waits until all calls and their work are done, frees and host functions included. While it
// waits, no new call may arrive but the end of a host function. If ctx ends first, the error says
// what was still in flight.
func (s *Session) Quiet(ctx context.Context) error {
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, time.Millisecond) {
		err := s.lockBefore(ctx.Done())
		if err == nil {
			if err = s.checkQuiet(); err == nil {
				s.reclaim.Reclaim(true)
			}
			s.core.Mu.Unlock()
		}
		if err == nil || errors.Is(err, ErrCapturing) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return quietError{context.Cause(ctx), err}
		}
	}
}

// quietError is the error of a Quiet that was given up.
type quietError struct{ why, busy error }

// Error leaves the reason out if it is a deadline, which the caller has set.
func (g quietError) Error() string {
	if errors.Is(g.why, context.DeadlineExceeded) {
		return g.busy.Error()
	}
	return fmt.Sprintf("%v: %v", g.why, g.busy)
}

func (g quietError) Unwrap() []error { return []error{g.why, g.busy} }

// Capturing reports whether a stream is being captured.
func (s *Session) Capturing() bool {
	s.core.Mu.Lock()
	defer s.core.Mu.Unlock()
	return s.core.Captures.Active() > 0
}

// checkQuiet returns the reason why the session is not quiet, nil if it is.
func (s *Session) checkQuiet() error {
	if s.core.Captures.Active() > 0 {
		return ErrCapturing
	}
	return s.busy()
}

// busy returns an error that lists what is in flight, nil for nothing.
func (s *Session) busy() error {
	var left []string
	at := time.Now()
	for _, sequence := range slices.Sorted(maps.Keys(s.pending)) {
		call := s.pending[sequence]
		left = append(
			left,
			fmt.Sprintf("%v has waited for %v", call.number, at.Sub(call.since).Round(time.Millisecond)),
		)
	}
	for _, index := range slices.Sorted(maps.Keys(s.core.Contexts)) {
		for _, st := range s.core.Contexts[index].Streams {
			if what := st.Unfinished(); what != "" {
				left = append(left, what)
			}
		}
	}
	for _, d := range s.memory.Closing() {
		left = append(left, fmt.Sprintf("GPU %d is being closed", d.Ordinal))
	}
	if n := s.streams.HostFunctions(); n > 0 {
		left = append(left, fmt.Sprintf("%d host functions have not returned", n))
	}
	if len(left) == 0 {
		return nil
	}
	if names := s.code.RecentKernels(); len(names) > 0 {
		left = append(left, "the last kernels were "+strings.Join(names, ", "))
	}
	return fmt.Errorf("%w: %s", ErrBusy, strings.Join(left, "; "))
}
