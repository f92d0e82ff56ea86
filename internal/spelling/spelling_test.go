package spelling

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"start", "status", "stop", "dump", "pre-dump", "restore", "json", "dir", "pid"}
	for wrong, want := range map[string]string{
		"satus": "status", "sttaus": "status", "restroe": "restore", "predump": "pre-dump", "jsn": "json",
		"di": "dir", "pidd": "pid", "x": "", "": "", "xyz": "", "migrate": "", "eager": "",
	} {
		if got := Nearest(wrong, known); got != want {
			t.Errorf("Nearest of %q: got %q, want %q", wrong, got, want)
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
