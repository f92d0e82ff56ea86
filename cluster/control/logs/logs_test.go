package logs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// open returns the store in a directory.
func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := NewStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// record is one record of a log, as linelog writes it.
func record(text string) []byte { return fmt.Appendf(nil, "1 0 out . %s\n", text) }

// add appends a record at the end of a log, and returns the next offset.
func add(t *testing.T, s *Store, of Attempt, offset int64, record []byte) int64 {
	t.Helper()
	next, err := s.Append(of, "n", offset, record)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// lines returns what is kept of a log.
func lines(t *testing.T, s *Store, of Attempt) (texts []string) {
	t.Helper()
	r, _, err := s.Open(of)
	if errors.Is(err, ErrNone) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		e, err := r.Next()
		if err != nil {
			return texts
		}
		texts = append(texts, string(e.Text))
	}
}

// TestKept: lines are there after a restart, attempts are apart, and to forget a launch does not
// touch one whose id begins alike.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	first, second := Attempt{"l-a", 0, 1}, Attempt{"l-a", 0, 2}
	other := Attempt{"l-ab", 0, 1}
	next := add(t, s, first, 0, record("one"))
	add(t, s, first, next, record("two"))
	add(t, s, second, 0, record("three"))
	add(t, s, other, 0, record("four"))
	if !s.Comes(first, "n") || s.Comes(first, "m") || s.Comes(Attempt{"l-a", 1, 1}, "n") {
		t.Error("it is not known which node sends the log")
	}
	s = open(t, dir)
	if got := lines(t, s, first); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("attempt 1 has %q", got)
	}
	if got := lines(t, s, second); !slices.Equal(got, []string{"three"}) {
		t.Errorf("attempt 2 has %q", got)
	}
	s.Forget("l-a")
	if got := append(lines(t, s, first), lines(t, s, second)...); got != nil {
		t.Errorf("a forgotten launch has %q", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || lines(t, s, other) == nil {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestBound: beyond the limit those logs go that have not grown for the longest time, and the sizes
// are known after a restart.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.limit = 10_000
	big := record(string(bytes.Repeat([]byte("x"), 3000)))
	for i := range 3 {
		add(t, s, Attempt{"l-a", i, 1}, 0, big)
		time.Sleep(2 * time.Millisecond) // times of files differ
	}
	size := s.size
	s = open(t, dir)
	if s.size != size || size != 3*int64(len(big)) {
		t.Errorf("%d bytes after a restart, %d before, of %d", s.size, size, 3*len(big))
	}
	s.limit = 10_000
	next := int64(len(big))
	add(t, s, Attempt{"l-a", 0, 1}, next, record("grows"))
	add(t, s, Attempt{"l-a", 3, 1}, 0, big)
	for i, want := range []bool{true, false, true, true} {
		if got := lines(t, s, Attempt{"l-a", i, 1}) != nil; got != want {
			t.Errorf("replica %d is kept: %v", i, got)
		}
	}
}

// BenchmarkFull appends to new logs in a full store of so many: each drops the oldest one.
func BenchmarkFull(b *testing.B) {
	for _, logs := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(logs), func(b *testing.B) {
			s, err := NewStore(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			for i := range logs { // as after a start, with files of which only the names count here
				s.grow(fmt.Sprint(i), 100, time.Unix(int64(i), 0))
			}
			s.limit = s.size
			text := record(string(bytes.Repeat([]byte("x"), 80)))
			i := 0
			for b.Loop() {
				if _, err := s.Append(Attempt{"l", i, 1}, "n", 0, text); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
