package humanize_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/phos-gpu/phos/cli/humanize"
)

// TestError: short values stay, and what is long is cut wherever it stands.
func TestError(t *testing.T) {
	for _, same := range []string{
		`--nodes takes N (number of nodes), not "x"`,
		`open /a/long/` + strings.Repeat("p", 140) + `: no such file`,
		`got "a \"quoted\" word", want a number`,
	} {
		if got := humanize.Error(errors.New(same)); got != same {
			t.Errorf("%q: got %q", same, got)
		}
	}
	if got := humanize.Error(errors.New("pid 7 (\x1b]0;a\a\u009b2J\r)\nline 2")); got != "pid 7 (?]0;a??2J?)\nline 2" {
		t.Errorf("control characters: got %q", got)
	}
	if got := humanize.Error(errors.New("open a\u202eb\u200b\u2066\ufeff")); got != "open a?b???" {
		t.Errorf("hidden characters: got %q", got)
	}
	for _, value := range []string{
		strings.Repeat("x", 1<<20), strings.Repeat("a b ", 1<<18), strings.Repeat(`"`, 1<<16), strings.Repeat("é", 1<<16),
		strings.Repeat("\\", 1<<16),
	} {
		for _, form := range []string{
			"--nodes takes N, not %q; want a number", "jobs.csv:3: got %q",
			"open %v: file name too long",
		} {
			if strings.Contains(form, "%v") && strings.ContainsAny(value, " ") {
				continue
			}
			got := humanize.Error(fmt.Errorf(form, value))
			if utf8.RuneCountInString(got) > 220 || !utf8.ValidString(got) || !strings.HasPrefix(got, form[:5]) {
				t.Errorf("%s: got %d bytes: %.300s", form, len(got), got)
			}
			if _, want, _ := strings.Cut(form, "; "); !strings.HasSuffix(got, want) {
				t.Errorf("%s: got %.300s, without the end", form, got)
			}
		}
	}
}
