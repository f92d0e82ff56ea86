package web

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
)

// text writes a course as "queued 0-5, running 5-9 on a; done 9".
func (c course) text() string {
	var parts, marks []string
	for _, s := range c.Segments {
		part := fmt.Sprintf("%s %d-%d", s.Kind, s.From, s.To)
		if s.Node != "" {
			part += " on " + s.Node
		}
		parts = append(parts, part)
	}
	for _, m := range c.Marks {
		marks = append(marks, fmt.Sprintf("%s %d", m.Kind, m.At))
	}
	return strings.Join(parts, ", ") + "; " + strings.Join(marks, ", ")
}

// TestCourse: worked out by hand.
func TestCourse(t *testing.T) {
	event := func(at int64, kind, text string) *api.Event {
		return &api.Event{UnixMs: at, Kind: kind, Text: text, Number: 1}
	}
	span := func(attempt uint32, node string, from, to int64) *api.Span {
		return &api.Span{Job: "m", Attempt: attempt, Node: node, FromUnixMs: from, ToUnixMs: to}
	}
	for _, test := range []struct {
		name   string
		launch *api.Launch
		phase  string
		want   string
	}{
		{"waits", &api.Launch{SubmittedUnixMs: 10, History: &api.History{Events: []*api.Event{
			event(10, "waiting", ""), event(15, "queued", ""),
		}}}, "pending", "waiting 10-15, queued 15-0; "},
		{"runs", &api.Launch{SubmittedUnixMs: 10, History: &api.History{
			Spans:  []*api.Span{span(1, "a", 20, 0)},
			Events: []*api.Event{event(10, "queued", ""), event(20, "running", ""), event(24, "running", "m.0 on a")},
		}}, "running", "queued 10-20, starting 20-24 on a, running 24-0 on a; "},
		{"moves", &api.Launch{SubmittedUnixMs: 10, EndedUnixMs: 60, History: &api.History{
			Spans: []*api.Span{span(1, "a", 20, 30), span(2, "b", 40, 60)},
			Events: []*api.Event{
				event(22, "running", "m.0 on a"), event(25, "saved", "m.0 on a, generation 1"), event(26, "saved", "m.1 on a"), event(30, "queued", ""),
				event(44, "running", "m.0 on b"), event(45, "restored", "m.0 on b, from generation 1 in /i, saved on a"),
			},
		}}, "done", "queued 10-20, starting 20-22 on a, running 22-30 on a, queued 30-40, starting 40-44 on b, running 44-60 on b; " +
			"checkpoint 25, move 40, restore 45, done 60"},
		{"is suspended", &api.Launch{SubmittedUnixMs: 10, History: &api.History{
			Spans:  []*api.Span{span(1, "a", 10, 30)},
			Events: []*api.Event{event(12, "running", "m.0 on a"), event(27, "stopping", ""), event(28, "saved", "m.0 on a"), event(30, "suspended", "")},
		}}, "pending", "starting 10-12 on a, running 12-27 on a, stopping 27-30 on a, suspended 30-0; checkpoint 28"},
		{"is stopped while it waits", &api.Launch{SubmittedUnixMs: 10, EndedUnixMs: 30}, "stopped", "; "},
		{"events were forgotten", &api.Launch{SubmittedUnixMs: 10, History: &api.History{
			Spans:  []*api.Span{span(1, "a", 12, 30), span(2, "a", 31, 0)},
			Events: []*api.Event{{UnixMs: 29, Kind: "not saved", Text: "m.0 on a: no room on disk", Number: 9}, event(33, "running", "m.0 on a")},
		}}, "running", "queued 10-12, running 12-30 on a, queued 30-31, starting 31-33 on a, running 33-0 on a; unsaved 29, restart 31"},
	} {
		got := newHistory(test.launch).course(&api.Replica{Job: "m", Phase: test.phase}).text()
		if got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// TestCourseHasNoGaps: whatever has happened, segments follow each other, and none has no length.
func TestCourseHasNoGaps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kinds := []string{"waiting", "queued", "running", "stopping", "suspended", "ended", "saved", "nonsense"}
	for range 3000 {
		l := &api.Launch{SubmittedUnixMs: 1, History: &api.History{}}
		at := int64(1)
		for i := range uint32(random.IntN(6)) {
			from := at + random.Int64N(5)
			at = from + random.Int64N(9)
			l.History.Spans = append(l.History.Spans, &api.Span{Job: "m", Attempt: i, Node: "a", FromUnixMs: from, ToUnixMs: at})
		}
		end := at + 5
		for range random.IntN(12) {
			l.History.Events = append(l.History.Events, &api.Event{
				UnixMs: 1 + random.Int64N(end), Kind: kinds[random.IntN(len(kinds))], Text: []string{"", "m.0 on a"}[random.IntN(2)],
			})
		}
		c := newHistory(l).course(&api.Replica{Job: "m", Phase: "pending"})
		last := l.GetSubmittedUnixMs()
		for i, s := range c.Segments {
			if s.From != last || s.To != 0 && s.To <= s.From || s.To == 0 && i != len(c.Segments)-1 {
				t.Fatalf("segment %d of %s; spans %v, events %v", i, c.text(), l.GetHistory().GetSpans(), l.GetHistory().GetEvents())
			}
			last = s.To
		}
	}
}

func TestPlain(t *testing.T) {
	for from, want := range map[string]string{
		"":                           "",
		"plain\ttext":                "plain\ttext",
		"\x1b[1;31mred\x1b[0m":       "red",
		"\x1b]0;title\aafter":        "after",
		"\x1b]8;;http://x\x1b\\link": "link",
		"\x1bP1$r0\x1b\\x":           "x",
		"\x1b(Bx\x1bM":               "x",
		" 10%\r 50%\r100%":           "100%",
		"dos\r":                      "dos",
		"bell\a":                     "bell␇",
		"\x1b":                       "␛",
		"\x1b[":                      "",
		"\x1b[1;2\x01x":              "␁x",
		"a\u202eb\u2069":             "a\ufffdb\ufffd",
		"a\u200bb\ufeff":             "a\ufffdb\ufffd",
		"bad\xff\xfe":                "bad\ufffd\ufffd",
		"grüße 火":                    "grüße 火",
		"\x7f\u0085\u2028":           "␡\ufffd\ufffd",
	} {
		if got := plain(from); got != want {
			t.Errorf("%q: %q, want %q", from, got, want)
		}
	}
}

// FuzzPlain checks what no text may have left, and that plain texts stay.
func FuzzPlain(f *testing.F) {
	f.Add("\x1b[0m\x1b]x\a\r\u202e")
	f.Add("text")
	f.Fuzz(func(t *testing.T, text string) {
		got := plain(text)
		if strings.ContainsAny(got, "\x1b\r\a\x00\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\x7f\u2028") {
			t.Errorf("%q became %q", text, got)
		}
		if again := plain(got); again != got {
			t.Errorf("%q became %q, and then %q", text, got, again)
		}
	})
}
