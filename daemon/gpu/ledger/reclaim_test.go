package ledger

import "testing"

// TestKept: who finds less than the accounts say asks those that keep something, and nobody else.
func TestKept(t *testing.T) {
	l := create(t, 100, 100)
	for _, slot := range []int{2, 5} {
		if err := l.Reserve(0, slot, 10); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name  string
		do    func()
		slot  int
		owed  bool
		count uint64
	}{
		{"nobody keeps anything", func() {}, 2, false, 0},
		{"another does", func() { l.Keep(5, true) }, 2, true, 1},
		{"only it does itself", func() {}, 5, false, 1},
		{"a further one", func() { l.Keep(2, true) }, 5, true, 2},
		{"it has given all back", func() { l.Keep(5, false) }, 2, false, 2},
		{"its worker is dead", func() { l.Clear(2) }, 5, false, 2},
	} {
		step.do()
		if owed := l.Owed(1, step.slot); owed != step.owed || l.Shortages(1) != step.count || l.Shortages(0) != 0 {
			t.Errorf("%s: %v, asked %d times", step.name, owed, l.Shortages(1))
		}
	}
}
