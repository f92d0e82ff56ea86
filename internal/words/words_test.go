package words

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"1 job": CountOf(1, "job"), "0 jobs": CountOf(0, "job"), "2 batches": CountOf(2, "batch"), "1 batch": CountOf(1,
			"batch"),
		"3 policies": Count(3, "policy", "policies"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for value, want := range map[string]string{
		"": "", "short": "short", strings.Repeat("x", 60): strings.Repeat("x", 60), strings.Repeat("x",
			61): strings.Repeat("x", 60) + "…",
		long: long[:60] + "…", "x" + long: "x" + long[:58] + "…",
	} {
		if got := Clip(value); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestQuoted: a quoted value has at most MaxValue characters and three more, escapes included.
func TestQuoted(t *testing.T) {
	for value, want := range map[string]string{
		"":                         `""`,
		"a…":                       `"a…"`,
		`say "yes"`:                `"say \"yes\""`,
		strings.Repeat("x", 61):    `"` + strings.Repeat("x", 60) + `…"`,
		strings.Repeat("\n", 1000): `"` + strings.Repeat(`\n`, 31) + `…"`,
	} {
		if got := Quoted(value); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCutAndTail(t *testing.T) {
	for _, each := range []struct{ got, want string }{
		{Cut("äöü", 3), "äöü"}, {Cut("äöüß", 3), "äö…"}, {Tail("äöü", 3), "äöü"}, {Tail("äöüß", 3), "…üß"},
	} {
		if each.got != each.want {
			t.Errorf("got %s, want %s", each.got, each.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour:                         "0 s",
		0:                                  "0 s",
		999 * time.Millisecond:             "0 s",
		40 * time.Second:                   "40 s",
		60 * time.Second:                   "1 min",
		185*time.Second + time.Millisecond: "3 min 5 s",
		2*time.Hour + 59*time.Second:       "2 h",
		2*time.Hour + 60*time.Second:       "2 h 1 min",
		76*time.Hour + 59*time.Minute:      "3 d 4 h",
		math.MaxInt64:                      "106751 d 23 h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%d: got %q, want %q", d, got, want)
		}
	}
}
