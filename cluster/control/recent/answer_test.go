package recent

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAnswer: an answer is kept as long as it is good, and an error is not kept.
func TestAnswer(t *testing.T) {
	fault := errors.New("no answer")
	for _, test := range []struct {
		name string
		good time.Duration
		err  error
		want int
	}{
		{"good for long", time.Hour, nil, 1},
		{"good for no time", 0, nil, 2},
		{"an error", time.Hour, fault, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			count := 0
			a := New(test.good, func(context.Context) (int, error) {
				count++
				return count, test.err
			})
			for range 2 {
				if got, err := a.Get(t.Context()); got != count || !errors.Is(err, test.err) {
					t.Errorf("got %d, %v after %d questions", got, err, count)
				}
			}
			if count != test.want {
				t.Errorf("asked %d times, want %d", count, test.want)
			}
		})
	}
}
