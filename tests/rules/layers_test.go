package rules

import (
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
	"cluster":         0,
	"daemon/jobfile":  0,
	"daemon/process":  0,
	"daemon/rights":   0,
	"daemon/statedir": 0,
	"tests":           9,

	// Edges.
	"hijack/wire":       1,
	"cgo/cudadrv":       1,
	"daemon/gpu":        1,
	"daemon/ledger":     1,
	"daemon/gpu/fatbin": 2,
	"daemon/gpu/digest": 2,
	"daemon/config":     2,
	"daemon/rpc":        1,
	"daemon/handover":   2,
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
	"hijack/gen":         2,

	// Assemblies.
	"criu":               4,
	"daemon/session":     4,
	"daemon/worker":      5,
	"cluster/agent":      4,
	"cluster/controller": 4,

	"daemon": 6,
	"cli":    7,
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

// layer finds the entry of layers that holds for a package.
func layer(path string) (prefix string, level int, found bool) {
	for candidate, n := range layers {
		if under(path, candidate) && len(candidate) >= len(prefix) {
			prefix, level, found = candidate, n, true
		}
	}
	return prefix, level, found
}

func TestLayers(t *testing.T) {
	for _, p := range goList(t, "./...") {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		home, level, found := layer(from)
		if !found {
			t.Errorf("%s stands in no layer: name it in the table", from)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			if toHome, toLevel, _ := layer(to); toLevel >= level && toHome != home {
				t.Errorf("%s (layer %d) imports %s (layer %d)", from, level, to, toLevel)
			}
			for _, rule := range forbidden {
				if under(from, rule[0]) && under(to, rule[1]) && !under(from, rule[1]) {
					t.Errorf("%s imports %s: %s", from, to, rule[2])
				}
			}
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
