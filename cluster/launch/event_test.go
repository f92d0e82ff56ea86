package launch

import "testing"

// TestExitTexts: users read how a process ended after its number. One of whose end nothing is known
// is not said to have never started.
func TestExitTexts(t *testing.T) {
	for _, test := range []struct {
		exit Exit
		want string
	}{
		{Exit{Error: "exec python4: no such file"}, "did not start: exec python4: no such file"},
		{UnknownExit(0, "its supervisor is lost: no answer"), "ended in an unknown way: its supervisor is lost: no answer"},
		{Exit{OutOfMemory: true, Signal: 9}, "was killed: out of memory"},
		{Exit{Signal: 15}, "was ended by signal 15"},
		{Exit{Code: 3}, "ended with status 3"},
	} {
		if got := test.exit.String(); got != test.want || test.exit.OK() {
			t.Errorf("%+v: %q, ok %t; want %q", test.exit, got, test.exit.OK(), test.want)
		}
	}
}
