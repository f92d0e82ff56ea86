package fatbin

import (
	"slices"
	"strings"
	"testing"
)

// TestRuns checks NVIDIA's rules: machine code runs on its major version from its minor version on,
// PTX on all later ones, with "a" on exactly one, with "f" on later ones of its major version.
func TestRuns(t *testing.T) {
	for _, test := range []struct {
		targets       string
		runs, ptxOnly []int // of the capabilities below
	}{
		{"", nil, nil},
		{"sm_80", []int{80, 86, 89}, nil},
		{"sm_86 sm_90", []int{86, 89, 90}, nil},
		{"sm_90a", []int{90}, nil},
		{"compute_86", []int{86, 89, 90, 100, 103, 120}, []int{86, 89, 90, 100, 103, 120}},
		{"compute_90a", []int{90}, []int{90}},
		{"compute_100f", []int{100, 103}, []int{100, 103}},
		{"compute_100a sm_75", []int{75, 100}, []int{100}},
		{"compute_90 sm_80", []int{80, 86, 89, 90, 100, 103, 120}, []int{80, 86, 89, 90, 100, 103, 120}},
		{"compute_1o0 sm_9 nonsense", nil, nil},
	} {
		for _, cc := range []int{75, 80, 86, 89, 90, 100, 103, 120} {
			targets := strings.Fields(test.targets)
			if got := Runs(targets, cc, false); got != slices.Contains(test.runs, cc) {
				t.Errorf("%q on %d: %v", test.targets, cc, got)
			}
			if got := Runs(targets, cc, true); got != slices.Contains(test.ptxOnly, cc) {
				t.Errorf("%q on %d, PTX only: %v", test.targets, cc, got)
			}
		}
	}
}

func TestTargets(t *testing.T) {
	var b, second Builder
	for _, target := range []string{"sm_90a", "sm_75", "sm_100f"} {
		must(t, b.PTX(0, ptxFor(target), LZ4))
	}
	for _, sm := range []int{90, 80, 80} {
		must(t, b.Cubin(sm, cubinFor(sm, 8), Plain))
	}
	must(t, second.PTX(80, ptxFor("sm_80"), Plain))
	must(t, second.Cubin(90, cubinFor(90, 7), Plain))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"fat binary":           {b.Bytes(), "compute_100f compute_75 compute_90a sm_80 sm_90"},
		"machine code":         {cubinFor(90, 7), "sm_90"},
		"linked texts":         {Link([]string{ptxFor("sm_80"), ptxFor("sm_90a"), ptxFor("sm_90")}), "compute_90a"},
		"no architecture":      {[]byte(".version 8.4\n"), "compute_0"},
		"parts of linked code": {fatbins(nil, b.Bytes(), second.Bytes()), "compute_80"},
	} {
		images, err := Parse(c.data)
		must(t, err)
		if got := strings.Join(images.Targets(), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
