package terminal

import (
	"bytes"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	type step struct {
		after       time.Duration
		phase       string
		done, total uint64
	}
	steps := []step{
		{0, "copy", 0, 4 << 30},
		{time.Second, "copy", 1 << 30, 4 << 30},
		{50 * time.Millisecond, "copy", 5 << 28, 4 << 30},
		{3 * time.Second, "copy", 2 << 30, 4 << 30},
		{time.Millisecond, "copy", 4 << 30, 4 << 30},
		{3 * time.Second, "copy", 4 << 30, 4 << 30}, // again
		{time.Second, "cut", 0, 0},
		{time.Millisecond, "cut", 2, 2}, // too soon for a line, and the last of the phase
		{time.Millisecond, "write", 0, 9},
		{3 * time.Second, "cut", 1, 2}, // overlaps, and says nothing new
		{3 * time.Second, "write", 61 << 20, 0},
		{time.Millisecond, "write", 62 << 20, 62 << 20},
	}
	for _, test := range []struct {
		name, want string
		moves      bool
	}{
		{"lines", "copy: 0 B of 4 GiB\ncopy: 2 GiB of 4 GiB, 506 MiB/s, 4s left\ncopy: 4 GiB of 4 GiB, 0.987 GiB/s\n" +
			"cut\ncut: 2 B of 2 B, 1.95 KiB/s\nwrite: 0 B of 9 B\nwrite: 61 MiB, 10.2 MiB/s\nnotice\n" +
			"write: 62 MiB of 62 MiB, 10.3 MiB/s\n", false},
		{
			"terminal", "\r\x1b[Kcopy [........................] 0 B of 4 GiB" +
				"\r\x1b[Kcopy [######..................] 1 GiB of 4 GiB, 1 GiB/s, 3s left" +
				"\r\x1b[Kcopy [############............] 2 GiB of 4 GiB, 506 MiB/s, 4s left" +
				"\r\x1b[Kcopy [########################] 4 GiB of 4 GiB, 0.987 GiB/s" +
				"\r\x1b[Kcopy [########################] 4 GiB of 4 GiB, 581 MiB/s" +
				"\r\x1b[Kcut\r\x1b[Kcut [########################] 2 B of 2 B, 1.95 KiB/s" +
				"\r\x1b[Kwrite [........................] 0 B of 9 B" +
				"\r\x1b[Kcut [############............] 1 B of 2 B, 0 B/s, 3s left" +
				"\r\x1b[Kwrite: 61 MiB, 10.2 MiB/s\r\x1b[Knotice\n" +
				"\r\x1b[Kwrite [########################] 62 MiB of 62 MiB, 10.3 MiB/s\r\x1b[K", true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
			bar := &Bar{out: &out, animated: test.moves, now: func() time.Time { return now }}
			for i, s := range steps {
				if i == len(steps)-1 {
					bar.Say("notice")
				}
				now = now.Add(s.after)
				bar.Step(s.phase, s.done, s.total)
			}
			bar.Clear()
			bar.Clear()
			if got := out.String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestLateCounter: short work shows nothing, longer work from then on.
func TestLateCounter(t *testing.T) {
	var out bytes.Buffer
	bar := NewLateCounter(&out, "jobs")
	now := bar.from.Add(-time.Nanosecond)
	bar.now = func() time.Time { return now }
	if bar.Step("work", 1, 3); out.Len() > 0 {
		t.Errorf("%q is shown at once", out.String())
	}
	now = bar.from
	if bar.Step("work", 2, 3); out.String() != "work: 2 of 3 jobs\n" {
		t.Errorf("got %q", out.String())
	}
}
