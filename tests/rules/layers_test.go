package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// layers says how high a package, or everything under a folder, stands. A package imports only what stands lower,
// or what lies in the same subtree. The longest matching prefix counts.
var layers = map[string]int{
	// Vocabulary.
	"hijack/abi":      0,
	"daemon/gpu/ptx":  0,
	"ckpt/image":      0,
	"ckpt/crew":       0,
	"cluster":         0,
	"daemon/process":  0,
	"daemon/intake":   0,
	"daemon/rights":   0,
	"daemon/statedir": 0,
	"tests":           9,

	// Edges.
	"hijack/wire":       1,
	"cgo/cudadrv":       1,
	"daemon/gpu":        1,
	"daemon/inventory":  2,
	"daemon/ledger":     1,
	"daemon/gpu/fatbin": 2,
	"daemon/gpu/digest": 2,
	"daemon/gpu/shadow": 2,
	"daemon/cgroup":     1,
	"daemon/config":     2,
	"daemon/rpc":        1,
	"daemon/exits":      2,
	"daemon/guard":      2,
	"daemon/handover":   2,
	"daemon/sharing":    1,
	"daemon/parcel":     1,
	"daemon/standby":    3,
	"daemon/door":       3,
	"daemon/archive":    3,
	"daemon/trees":      3,
	"daemon/metrics":    3,
	"ckpt/store":        1,
	"cluster/api":       1,
	"cluster/state":     1,
	"cluster/pipeline":  1,
	"cluster/launch":    1,
	"scheduler":         1,

	// Mechanisms.
	"daemon/gpu/cuda":    3,
	"daemon/gpu/soft":    3,
	"daemon/gpu/gputest": 3,
	"ckpt":               2,
	"ckpt/capture":       3,
	"ckpt/load":          3,
	"scheduler/sim":      2,
	"scheduler/picture":  3,
	"scheduler/compat":   3,
	"hijack/gen":         2,

	// Assemblies.
	"criu":               4,
	"daemon/session":     4,
	"daemon/gpuhalf":     4,
	"daemon/preflight":   4,
	"daemon/jobfile":     3,
	"daemon/policy":      3,
	"daemon/worker":      5,
	"cluster/agent":      4,
	"cluster/controller": 4,

	"daemon": 6,
	"cli":    7,
	"docs":   8,
}

// forbidden imports go beyond the order of layers: importer prefix, imported prefix, reason.
var forbidden = [][3]string{
	{"daemon/session", "daemon/gpu/soft", "the session works against the contract, never against one backend"},
	{"daemon/session", "daemon/gpu/cuda", "the session works against the contract, never against one backend"},
	{"daemon/worker", "daemon/gpu/soft", "main hands the backend in"},
	{"daemon/worker", "daemon/gpu/cuda", "main hands the backend in"},
	{"daemon", "criu", "the daemon sees the CPU half through an interface"},
	{"cli/pos_cli", "daemon/session", "the command speaks to the daemon by daemon/rpc only"},
	{"cli/pos_cli", "daemon/worker", "the command speaks to the daemon by daemon/rpc only"},
	{"cli/pos_cli", "daemon/gpu/soft", "the command speaks to the daemon by daemon/rpc only"},
	{"cluster", "daemon/session", "cluster knows the daemon by daemon/rpc only"},
	{"scheduler", "daemon", "policies are pure"},
	{"daemon/gpu", "hijack/wire", "a backend knows nothing of the transport"},
}

// under reports whether path is prefix or lies below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// layering is a table of layers and what it does not say.
type layering struct {
	layers    map[string]int
	forbidden [][3]string
}

// layer finds the entry of the table that holds for a package.
func (l layering) layer(path string) (prefix string, level int, found bool) {
	for candidate, n := range l.layers {
		if under(path, candidate) && len(candidate) >= len(prefix) {
			prefix, level, found = candidate, n, true
		}
	}
	return prefix, level, found
}

// breaches says what is wrong with the imports of some packages.
func (l layering) breaches(packages []pkg) (found []string) {
	for _, p := range packages {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		home, level, known := l.layer(from)
		if !known {
			found = append(found, fmt.Sprintf("%s stands in no layer: name it in the table", from))
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			if toHome, toLevel, _ := l.layer(to); toLevel >= level && toHome != home {
				found = append(found, fmt.Sprintf("%s (layer %d) imports %s (layer %d)", from, level, to, toLevel))
			}
			for _, rule := range l.forbidden {
				if under(from, rule[0]) && under(to, rule[1]) && !under(from, rule[1]) {
					found = append(found, fmt.Sprintf("%s imports %s: %s", from, to, rule[2]))
				}
			}
		}
	}
	return found
}

func TestLayers(t *testing.T) {
	for _, breach := range (layering{layers, forbidden}).breaches(goList(t, "./...")) {
		t.Error(breach)
	}
}

// TestLayeringFindsBreaches holds the rule itself against packages that were never written.
func TestLayeringFindsBreaches(t *testing.T) {
	l := layering{
		layers:    map[string]int{"word": 0, "edge": 1, "edge/deep": 2, "other": 1, "top": 3},
		forbidden: [][3]string{{"top", "other/secret", "only edge may"}},
	}
	for _, test := range []struct {
		name, from string
		imports    []string
		want       []string
	}{
		{"down", "edge", []string{"word", "word/part"}, nil},
		{"far down", "top/part", []string{"edge/deep/part", "word"}, nil},
		{"its own subtree", "edge/part", []string{"edge", "edge/sibling"}, nil},
		{"nothing of ours", "word", []string{"fmt", "example.com/top"}, nil},
		{"up", "word/part", []string{"top"}, []string{"word/part (layer 0) imports top (layer 3)"}},
		{"sideways", "edge", []string{"other"}, []string{"edge (layer 1) imports other (layer 1)"}},
		{"up within a tree", "edge", []string{"edge/deep"}, []string{"edge (layer 1) imports edge/deep (layer 2)"}},
		{"down within a tree", "edge/deep", []string{"edge"}, nil},
		{"of one name's beginning", "edgeless", nil, []string{"edgeless stands in no layer: name it in the table"}},
		{"forbidden", "top", []string{"other", "other/secret/part"}, []string{"top imports other/secret/part: only edge may"}},
		{"two of three", "other", []string{"top", "word", "edge"}, []string{
			"other (layer 1) imports top (layer 3)", "other (layer 1) imports edge (layer 1)",
		}},
	} {
		p := pkg{ImportPath: module + "/" + test.from}
		for _, to := range test.imports {
			if strings.Contains(to, ".") || to == "fmt" {
				p.Imports = append(p.Imports, to)
				continue
			}
			p.Imports = append(p.Imports, module+"/"+to)
		}
		if got := l.breaches([]pkg{p}); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestUnsafePlacement(t *testing.T) {
	for _, s := range sources(t, func(f file) bool { return !under(f.path, "cgo") }) {
		for _, spec := range s.syntax.Imports {
			switch path := strings.Trim(spec.Path.Value, `"`); {
			case path == "C":
				t.Errorf(`%s: import "C" belongs under cgo/`, s.path)
			case path == "unsafe" && !unsafeFile(s.path):
				t.Errorf("%s: unsafe belongs in a file named *_unsafe.go", s.path)
			}
		}
	}
}

func unsafeFile(path string) bool {
	return slices.ContainsFunc([]string{"_unsafe.go", "_unsafe_test.go"}, func(suffix string) bool { return strings.HasSuffix(path, suffix) })
}
