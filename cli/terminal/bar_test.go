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
		{0, "copy", 0, 4e9},
		{time.Second, "copy", 1e9, 4e9},
		{50 * time.Millisecond, "copy", 11e8, 4e9},
		{3 * time.Second, "copy", 2e9, 4e9},
		{time.Millisecond, "copy", 4e9, 4e9},
		{time.Second, "cut", 0, 0},
		{time.Second, "write", 5e8, 0},
	}
	for _, test := range []struct {
		name, want string
		moves      bool
	}{
		{"lines", "copy: 0.00 of 4.00 GB\ncopy: 2.00 of 4.00 GB, 0.49 GB/s, 4s left\ncopy: 4.00 of 4.00 GB, 0.99 GB/s\ncut\nnotice\nwrite: 0.50 GB\n", false},
		{
			"terminal", "\r\x1b[Kcopy [........................] 0.00 of 4.00 GB" +
				"\r\x1b[Kcopy [######..................] 1.00 of 4.00 GB, 1.00 GB/s, 3s left" +
				"\r\x1b[Kcopy [############............] 2.00 of 4.00 GB, 0.49 GB/s, 4s left" +
				"\r\x1b[Kcopy [########################] 4.00 of 4.00 GB, 0.99 GB/s" +
				"\r\x1b[Kcut\r\x1b[Knotice\n\r\x1b[Kwrite: 0.50 GB\r\x1b[K", true,
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
