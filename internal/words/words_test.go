package words

import (
	"strings"
	"testing"
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
