package answer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/linelog"
)

// entry is an entry of a log that outlives the next one.
type entry struct {
	linelog.Entry
	text string
}

// entriesOf reads a log.
func entriesOf(t *testing.T, dir string) (all []entry) {
	t.Helper()
	reader := linelog.Open(dir, linelog.Position{})
	defer reader.Close()
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{e, string(e.Text)})
	}
}

// newLog writes a log of three processes that has so many lines of each. The first of many are
// dropped, because the log has reached its limit.
func newLog(t *testing.T, lines int) (dir string, w *linelog.Writer) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "log")
	w, err := linelog.Create(dir, linelog.Limits{TotalBytes: 1 << 20, LineBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	for process := range 3 {
		out := w.Source(process, linelog.Stream(process%2))
		for i := range lines {
			out.Write(fmt.Appendf(nil, "line %d of process %d %s\n", i, process, strings.Repeat(".", 100*(i%2))))
		}
	}
	return dir, w
}

// damage makes two records unreadable: the second one, and one that is far behind it.
func damage(t *testing.T, dir string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	text, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	records := bytes.SplitAfter(text, []byte("\n"))
	records[1][0], records[len(records)/2][0] = '?', '?'
	if err := os.WriteFile(segments[0], bytes.Join(records, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shown is a line as tests compare it.
func shown(unixNs int64, process uint32, stderr, partial bool, text string, dropped uint64) string {
	return fmt.Sprintf("%d %d %t %t %s %d", unixNs, process, stderr, partial, text, dropped)
}

// wanted computes the answer to a question from all entries.
func wanted(all []entry, q *api.LogQuestion) (want []string) {
	for i, e := range all {
		at := e.Time
		for j := i; at.IsZero() && j >= 0; j-- {
			at = all[j].Time
		}
		for j := i; at.IsZero() && j < len(all); j++ {
			at = all[j].Time
		}
		switch {
		case at.UnixNano() < q.GetSinceUnixNs():
		case e.Lost != nil:
			want = append(want, shown(at.UnixNano(), 0, false, false, e.Lost.Reason, uint64(e.Lost.Lines)))
		case q.GetProcess() < 0 || int(q.GetProcess()) == e.Process:
			want = append(want, shown(at.UnixNano(), uint32(e.Process), e.Stream == linelog.Err, e.Partial, e.text, 0))
		}
	}
	if tail := int(q.GetTail()); tail > 0 {
		want = want[max(0, len(want)-tail):]
	}
	return want
}

// picker returns a picker, and what it has sent.
func picker(q *api.LogQuestion) (*Picker, *[]string) {
	got := new([]string)
	return &Picker{Question: q, Send: func(l *api.LogLine) error {
		*got = append(*got, shown(l.GetUnixNs(), l.GetProcess(), l.GetStderr(), l.GetPartial(), string(l.GetText()), l.GetDropped()))
		return nil
	}}, got
}

// TestAnswers compares answers with a search through all entries, for logs with and without losses.
func TestAnswers(t *testing.T) {
	for name, log := range map[string]struct {
		lines   int
		damaged bool
	}{"empty": {0, false}, "whole": {20, false}, "damaged": {20, true}, "rotated": {6000, false}, "rotated and damaged": {6000, true}} {
		dir, w := newLog(t, log.lines)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if log.damaged {
			damage(t, dir)
		}
		all := entriesOf(t, dir)
		lost := slices.ContainsFunc(all, func(e entry) bool { return e.Lost != nil && e.Lost.Reason == linelog.Rotated })
		if lost != (log.lines > 1000) {
			t.Fatalf("%s: lines were dropped: %v", name, lost)
		}
		var times []int64 // none, that of an entry in the middle, and one behind all
		if times = append(times, 0); len(all) > 1 {
			times = append(times, all[len(all)*2/3].Time.UnixNano(), time.Now().Add(time.Hour).UnixNano())
		}
		for _, since := range times {
			for _, process := range []int32{-1, 0, 2, 3} {
				for _, tail := range []uint32{0, 1, 7, 1 << 31} {
					q := &api.LogQuestion{Process: process, Tail: tail, SinceUnixNs: since}
					p, got := picker(q)
					reader := linelog.Open(dir, linelog.Position{})
					if err := p.TakeAll(reader); err != nil {
						t.Fatal(err)
					}
					_ = reader.Close()
					if want := wanted(all, q); !slices.Equal(*got, want) {
						t.Errorf("%s, %v: got %d lines, want %d\ngot  %.300q\nwant %.300q", name, q, len(*got), len(want), *got, want)
					}
				}
			}
		}
	}
}

// TestLossHasTime: a loss that the log has no time of is told with the time of what is next to it.
func TestLossHasTime(t *testing.T) {
	dir, _ := newLog(t, 6000)
	p, got := picker(&api.LogQuestion{Process: -1})
	reader := linelog.Open(dir, linelog.Position{})
	defer reader.Close()
	if err := p.TakeAll(reader); err != nil || len(*got) < 2 {
		t.Fatal(*got, err)
	}
	if !strings.Contains((*got)[0], linelog.Rotated) {
		t.Fatalf("the first line is %q", (*got)[0])
	}
	loss, _, _ := strings.Cut((*got)[0], " ")
	if first, _, _ := strings.Cut((*got)[1], " "); loss != first {
		t.Errorf("the loss is of %s, the line after it of %s", loss, first)
	}
}

// TestFollowed: a tail is sent once the log was read, and then each line as it comes.
func TestFollowed(t *testing.T) {
	dir, w := newLog(t, 5)
	p, got := picker(&api.LogQuestion{Process: 2, Tail: 2, Follow: true})
	reader := linelog.Open(dir, linelog.Position{})
	defer reader.Close()
	if err := p.TakeAll(reader); err != nil {
		t.Fatal(err)
	}
	before := len(*got)
	w.Source(2, linelog.Out).Write([]byte("more\nand more\n"))
	w.Source(1, linelog.Out).Write([]byte("of another process\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	err := reader.Follow(t.Context(), func(e linelog.Entry) error {
		n := len(*got)
		if err := p.Take(e); err != nil || e.Process == 2 && len(*got) != n+1 {
			t.Errorf("%q is not sent at once: %v", e.Text, err)
		}
		return nil
	})
	want := wanted(entriesOf(t, dir), &api.LogQuestion{Process: 2, Tail: 2 + 2})
	if err != nil || before != 2 || !slices.Equal(*got, want) {
		t.Errorf("a tail of %d lines, and in all\n%q, want\n%q, %v", before, *got, want, err)
	}
}

// TestUnsent: an answer that cannot be sent ends with the error, at any line.
func TestUnsent(t *testing.T) {
	dir, _ := newLog(t, 5)
	gone := errors.New("the reader is gone")
	for _, tail := range []uint32{0, 4} {
		for at := range 4 {
			sent := 0
			p := &Picker{Question: &api.LogQuestion{Process: -1, Tail: tail}, Send: func(*api.LogLine) error {
				if sent++; sent > at {
					return gone
				}
				return nil
			}}
			reader := linelog.Open(dir, linelog.Position{})
			if err := p.TakeAll(reader); !errors.Is(err, gone) || sent != at+1 {
				t.Errorf("tail %d, error at line %d: %v after %d", tail, at, err, sent)
			}
			_ = reader.Close()
		}
	}
}
