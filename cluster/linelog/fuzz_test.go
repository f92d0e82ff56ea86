package linelog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

// FuzzReader reads segments with any content: a Reader ends, its Positions only grow, and another
// Reader that begins at any of them goes on with the same entries.
func FuzzReader(f *testing.F) {
	whole := appendHeader(nil, 0)
	whole = appendText(whole, &Entry{Time: time.Unix(1, 2), Process: 3, Stream: Err, Text: []byte("text"), Partial: true})
	whole = appendLost(whole, time.Unix(1, 2), Lost{1, 2, "why"})
	f.Add(whole, []byte("phos log 1 2\n"), int64(len(whole)))
	f.Add(appendEnd(whole, time.Unix(1, 2)), []byte{}, int64(len(whole)+100))
	f.Add([]byte("phos log 1 -1\n\n\n"), []byte("phos log 1 99999999999999999999\n1 0 out . "), int64(7))
	f.Add([]byte("phos log 2 0\n"), []byte("x"), int64(1))
	f.Fuzz(func(t *testing.T, first, second []byte, base int64) {
		dir := t.TempDir()
		if base <= 0 {
			base = 1
		}
		for at, text := range map[int64][]byte{0: first, base: second} {
			if err := os.WriteFile(segment{base: at}.path(dir), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		entries, positions := readLimited(t, dir, Position{}, len(first)+len(second)+2)
		if base < int64(len(first)) {
			return // such segments were never written
		}
		for i, from := range positions {
			rest, _ := readLimited(t, dir, from, len(entries))
			if want := entries[i+1:]; fmt.Sprint(rest) != fmt.Sprint(want) {
				t.Fatalf("from %+v: %q, want %q", from, rest, want)
			}
		}
	})
}

// readLimited reads all entries, which must be at most so many.
func readLimited(t *testing.T, dir string, from Position, most int) (entries []string, positions []Position) {
	t.Helper()
	r := Open(dir, from)
	defer r.Close()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrVersion) {
			return entries, positions
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Next.Offset < from.Offset || e.Next != r.Position() || len(entries) == most {
			t.Fatalf("entry %d: %+v after %+v", len(entries), e, from)
		}
		from = e.Next
		entries, positions = append(entries, shown(e)), append(positions, e.Next)
	}
}
