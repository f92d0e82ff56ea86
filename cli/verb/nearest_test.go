package verb

import (
	"flag"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"start", "status", "stop", "dump", "pre-dump", "restore", "json", "dir", "pid"}
	for wrong, want := range map[string]string{
		"satus": "status", "sttaus": "status", "restroe": "restore", "predump": "pre-dump", "jsn": "json",
		"di": "dir", "pidd": "pid", "x": "", "": "", "xyz": "", "migrate": "", "eager": "",
	} {
		if got := nearest(wrong, known); got != want {
			t.Errorf("nearest of %q: got %q, want %q", wrong, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"kitten", "sitting", 3},
		{"ab", "ba", 1},
		{"ca", "abc", 3}, // the known difference from the unrestricted distance, which is 2
		{"saturday", "sunday", 3},
	} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance of %q and %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func TestUsageOf(t *testing.T) {
	for usage, want := range map[string][2]string{
		"`DIR` of the image":             {"DIR", "directory of the image"},
		"`TIME` between checkpoints":     {"TIME", "time between checkpoints"},
		"`N` nodes":                      {"N", "number of nodes"},
		"`ACTION`: start or stop":        {"ACTION", "action: start or stop"},
		"cancel after `TIME`":            {"TIME", "cancel after TIME"},
		"the `N`th generation":           {"N", "the Nth generation"},
		"write at most `BYTES` a second": {"BYTES", "write at most BYTES a second"},
	} {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.String("x", "", usage)
		placeholder, meaning := usageOf(flags.Lookup("x"))
		if placeholder != want[0] || meaning != want[1] {
			t.Errorf("%q: got %q, %q, want %q", usage, placeholder, meaning, want)
		}
	}
}
