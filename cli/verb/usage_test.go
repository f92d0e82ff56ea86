package verb

import (
	"flag"
	"testing"
)

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
