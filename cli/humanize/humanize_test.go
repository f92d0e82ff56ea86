package humanize

import (
	"testing"
	"time"
)

func TestTexts(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0 B", 999: "999 B", 1000: "0.977 KiB", 1 << 20: "1 MiB",
		3 << 29: "1.5 GiB", 1 << 60: "1 EiB",
	} {
		if got := Bytes(bytes); got != want {
			t.Errorf("Bytes(%d): got %q, want %q", bytes, got, want)
		}
	}
	for age, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Hour: "1h00m",
		49*time.Hour + time.Minute: "2d01h",
	} {
		if got := Age(age); got != want {
			t.Errorf("Age(%v): got %q, want %q", age, got, want)
		}
	}
	for count, want := range map[uint64]string{0: "0s", 1234: "1.23ms", 12_345_678: "12.35s", 61_700_000: "1m2s"} {
		if got := Microseconds(count); got != want {
			t.Errorf("Microseconds(%d): got %q, want %q", count, got, want)
		}
	}
	for text, want := range map[string]string{
		"": "-", "short": "short", "longer than that": "longe…",
		"a\x1b[2J": "a?[2J", "é\n": "é?",
	} {
		if got := Shorten(text, 6); got != want {
			t.Errorf("Shorten(%q): got %q, want %q", text, got, want)
		}
	}
}
