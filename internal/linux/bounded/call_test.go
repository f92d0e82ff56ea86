package bounded

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestCall: a call that hangs is given up, and is not made again until it has returned. Other
// questions of the user are answered, up to the bound.
func TestCall(t *testing.T) {
	const user = 54321
	hang := make(chan struct{})
	ask := func(of any, limit time.Duration, look func() int) (int, error) {
		return Call(Question{user, of}, limit, look)
	}
	hangs := func() int { <-hang; return 1 }
	answers := func() int { return 2 }
	if _, err := ask("a", time.Millisecond, hangs); !errors.Is(err, ErrSilent) {
		t.Errorf("a call that hangs: got %v, want ErrSilent", err)
	}
	if _, err := ask("a", time.Minute, answers); !errors.Is(err, ErrSilent) {
		t.Errorf("the same question again: got %v, want ErrSilent", err)
	}
	if got, err := ask("b", time.Minute, answers); err != nil || got != 2 {
		t.Errorf("another question: got %d, %v, want 2", got, err)
	}
	for i := range maxStuck {
		_, _ = ask(i, time.Microsecond, hangs)
	}
	if got := Stuck(user); got != maxStuck {
		t.Errorf("%d calls hang, want %d", got, maxStuck)
	}
	var full *FullError
	if _, err := ask("b", time.Minute, answers); !errors.As(err, &full) || errors.Is(err, ErrSilent) ||
		!strings.Contains(err.Error(), "64 files and processes of user 54321 do not respond, and phos waits for at most 64") {
		t.Errorf("beyond the bound: got %v, want the bound", err)
	}
	if _, err := ask("a", time.Minute, answers); !errors.Is(err, ErrSilent) {
		t.Errorf("a call that hangs, at the bound: got %v, want ErrSilent", err)
	}
	if _, err := Call(Question{user + 1, "a"}, time.Minute, answers); err != nil {
		t.Errorf("another user: got %v", err)
	}
	close(hang)
	for Stuck(user) > 0 {
		time.Sleep(time.Millisecond)
	}
	if got, err := ask("a", time.Minute, answers); err != nil || got != 2 {
		t.Errorf("after all have returned: got %d, %v, want 2", got, err)
	}
}
