package launch

import (
	"fmt"
	"slices"
	"testing"
)

// TestExpand compares an array with nested loops.
func TestExpand(t *testing.T) {
	spec := Spec{
		Variables: map[string]string{"X": "y"},
		Array:     map[string][]Value{"B": {"1", "{A}"}, "A": {"p", "q", "r"}},
		Jobs:      []Job{{Processes: []Process{{Command: []string{"run", "{A}-{B}-{C}"}}}}},
	}
	var want, got []string
	for _, a := range []string{"p", "q", "r"} {
		for _, b := range []string{"1", "{A}"} {
			want = append(want, fmt.Sprintf("%s-%s-{C} %s %s y", a, b, a, b))
		}
	}
	for _, each := range spec.Expand() {
		e := each.Variables
		got = append(got, fmt.Sprintf("%s %s %s %s", each.Jobs[0].Processes[0].Command[1], e["A"], e["B"], e["X"]))
		if each.Array != nil {
			t.Error("a launch of an array is an array")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(spec.Variables) != 1 || spec.Jobs[0].Processes[0].Command[1] != "{A}-{B}-{C}" {
		t.Error("Expand changed its argument")
	}
	if alone := (Spec{Name: "x"}).Expand(); len(alone) != 1 || alone[0].Name != "x" {
		t.Errorf("no array: got %v, want the launch itself", alone)
	}
}
