package clusterfudge

import (
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
)

// TestProblem: only processes that have failed by themselves have a problem, in the words of phos.
func TestProblem(t *testing.T) {
	for _, test := range []struct {
		exit *api.Exit
		want string
	}{
		{nil, ""},
		{&api.Exit{Process: 1}, ""},
		{&api.Exit{Process: 1, Signal: 15, Stopped: true}, ""},
		{&api.Exit{Process: 1, Code: 3}, "ended with status 3"},
		{&api.Exit{Error: "no such file"}, "did not start: no such file"},
		{&api.Exit{Code: -1, Error: "its supervisor is lost"}, "ended in an unknown way: its supervisor is lost"},
	} {
		if got := problem(test.exit); got != test.want {
			t.Errorf("%v: %q, want %q", test.exit, got, test.want)
		}
	}
}
