package bounded

import (
	"testing"
	"time"
)

// TestCall: a call that hangs is given up, and is not made again until it has returned. Other
// questions of the user are answered, up to the bound.
func TestCall(t *testing.T) {
	const user = 54321
	hang := make(chan struct{})
	ask := func(of any, limit time.Duration, look func() int) (int, bool) {
		return Call(Question{user, of}, limit, look)
	}
	hangs := func() int { <-hang; return 1 }
	answers := func() int { return 2 }
	if _, ok := ask("a", time.Millisecond, hangs); ok {
		t.Error("a call that hangs was answered")
	}
	if _, ok := ask("a", time.Minute, answers); ok {
		t.Error("the same question was asked again")
	}
	if got, ok := ask("b", time.Minute, answers); !ok || got != 2 {
		t.Errorf("another question: got %d, %v, want 2", got, ok)
	}
	for i := range maxStuck {
		ask(i, time.Microsecond, hangs)
	}
	if got := Stuck(user); got != maxStuck {
		t.Errorf("%d calls hang, want %d", got, maxStuck)
	}
	if _, ok := ask("b", time.Minute, answers); ok {
		t.Error("more calls than the bound")
	}
	if _, ok := Call(Question{user + 1, "a"}, time.Minute, answers); !ok {
		t.Error("another user was not answered")
	}
	close(hang)
	for Stuck(user) > 0 {
		time.Sleep(time.Millisecond)
	}
	if got, ok := ask("a", time.Minute, answers); !ok || got != 2 {
		t.Errorf("after all have returned: got %d, %v, want 2", got, ok)
	}
}
