package main

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/config"
)

// TestHelp checks that each setting has a flag with a description, on lines that fit a terminal.
func TestHelp(t *testing.T) {
	flags := flag.NewFlagSet("phosd", flag.ContinueOnError)
	(&config.Flags{}).Register(flags)
	var out bytes.Buffer
	if err := help(&out, flags); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 115 || strings.Contains(line, "sets ") {
			t.Errorf("got line %q", line)
		}
	}
	for _, key := range config.Keys() {
		name := "  --" + strings.NewReplacer(".", "-", "_", "-").Replace(key) + " "
		if !strings.Contains(out.String(), name) {
			t.Errorf("the help lacks %q", name)
		}
	}
}
