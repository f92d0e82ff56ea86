package migrate

import "testing"

// TestMove: a program moves to a host that shares no file with the first one, but programs and
// libraries, and ends as if nothing had happened.
func TestMove(t *testing.T) {
	p := newPair(t)
	want := p.undisturbed("400", "20000", "10000")
	program := p.start(work, "400", "20000", "10000")
	p.awaitSteps(p.from, 10)
	pid := program.PID()
	said := p.moves(pid, "--json")
	m := decode(t, said)
	t.Logf("%s", said)
	if m.PID != pid || m.StoodStill == 0 || m.Sent == 0 || m.Rounds < 2 || m.Foreseen == 0 {
		t.Errorf("got %+v", m)
	}
	if got := pids(p.from); len(got) > 0 {
		t.Errorf("the first host has %v", got)
	}
	p.awaitSteps(p.to, 10)
	p.finish(p.to, want)
	p.nothingLeft()
}
