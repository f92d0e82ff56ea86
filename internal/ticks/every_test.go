package ticks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestEvery: the body runs after each interval, and not once the context has ended.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Second)
		defer cancel()
		begun, count := time.Now(), 0
		for now := range Every(ctx, time.Minute) {
			if count++; now.Sub(begun) != time.Duration(count)*time.Minute {
				t.Errorf("run %d is after %v", count, now.Sub(begun))
			}
		}
		if passed := time.Since(begun); count != 5 || passed != 5*time.Minute+time.Second {
			t.Errorf("it has ended after %d runs and %v", count, passed)
		}
		for range Every(ctx, time.Nanosecond) {
			t.Error("it runs though the context has ended")
		}
	})
}

// TestSlowBody: a body that takes longer than some intervals does not run for each of them.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		for range Every(t.Context(), time.Minute) {
			if at = append(at, time.Since(begun)); len(at) == 4 {
				break
			}
			if len(at) == 1 {
				time.Sleep(3*time.Minute + time.Second)
			}
		}
		want := []time.Duration{time.Minute, 4*time.Minute + time.Second, 5 * time.Minute, 6 * time.Minute}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("runs at %v, want %v", at, want)
				break
			}
		}
	})
}

// TestEndedWhileBusy: the end of the context during the body is seen before the next run.
func TestEndedWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		count := 0
		for range Every(ctx, time.Minute) {
			count++
			time.Sleep(2 * time.Minute) // so that the next tick is there, too
			cancel()
		}
		if count != 1 {
			t.Errorf("%d runs", count)
		}
	})
}

// TestPause: a pause ends with its time, or with the context.
func TestPause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := Pause(ctx, time.Nanosecond); err != nil {
		t.Error(err)
	}
	cancel()
	if err := Pause(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
