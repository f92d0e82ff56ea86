package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// order lists the layers from the bottom up.
var order = []string{
	"ground",
	"protocol",
	"settings",
	"policy",
	"device",
	"image",
	"process",
	"service",
	"main",
	"outside",
}

// layers says in which layer a package, or everything under a folder, stands. A package imports
// only from lower layers or from its own row. The longest matching prefix counts.
var layers = map[string]string{
	// Linux, and words that everything above shares.
	"internal/linux":    "ground",
	"hijack/abi":        "ground",
	"internal/ptx":      "ground",
	"internal/rpcerror": "ground",
	"internal/scrape":   "ground",
	"internal/spelling": "ground",
	"internal/ticks":    "ground",
	"internal/words":    "ground",
	"ckpt/image":        "ground",
	"ckpt/pool":         "ground",
	"scheduler/cluster": "ground",
	"cluster/store":     "ground",
	// What crosses the border between processes, or to the driver.
	"hijack/wire": "protocol",
	"daemon/api":  "protocol",
	"cgo/cudadrv": "protocol",
	// The store of a cluster: its implementations, and the tests of all of them.
	"cluster/store/etcd":      "protocol",
	"cluster/store/storetest": "protocol",
	// What phosd is told.
	"daemon/config": "settings",
	// Pure decisions: no process, no GPU, no clock.
	"cluster/identity": "policy",
	"cluster/launch":   "policy",
	"cluster/pipeline": "policy",
	"scheduler":        "policy",
	// GPUs: the contract and its backends.
	"daemon/gpu": "device",
	// Images and the order of steps.
	"ckpt": "image",
	// The worker, as the user; CRIU and its helpers, with the rights of the user.
	"criu":          "process",
	"daemon/worker": "process",
	// phosd, as root.
	"daemon/phosd": "service",
	// A cluster: messages and records, then what runs in controllers and agents.
	"cluster/api":              "policy",
	"cluster/record":           "device",
	"cluster/metrics":          "device",
	"cluster/codestore":        "device",
	"cluster/control":          "image",
	"cluster/archive":          "image",
	"cluster/clusterfudge":     "process",
	"cluster/gateway":          "process",
	"cluster/inside":           "image",
	"cluster/messages":         "device",
	"cluster/members":          "process",
	"cluster/web":              "process",
	"cluster/agent":            "process",
	"cluster/linelog":          "policy",
	"cluster/linelog/answer":   "device",
	"cluster/agent/supervisor": "image",
	// Servers for tests of clients.
	"cluster/api/apitest": "service",
	"cli":                 "main",
	// What is no part of the product.
	"hijack/gen": "outside",
	"docs":       "outside",
	"tests":      "outside",
}

// forbidden imports go beyond the order of layers: importer prefix, imported prefix, reason.
var forbidden = [][3]string{
	{"daemon/worker", "daemon/gpu/soft", "the main program hands the backend in"},
	{"daemon/worker", "daemon/gpu/cuda", "the main program hands the backend in"},
	{"daemon/worker/session", "daemon/worker/capture", "the session knows nothing of images"},
	{"daemon/worker/session", "daemon/worker/load", "the session knows nothing of images"},
	{"daemon/gpu/cuda", "daemon/gpu/soft", "backends know nothing of each other"},
	{"daemon/gpu/soft", "daemon/gpu/cuda", "backends know nothing of each other"},
	{"daemon/gpu", "cgo/cudadrv", "only daemon/gpu/cuda calls the driver"},
	{"daemon/gpu", "hijack/wire", "a backend knows nothing of the transport"},
	{"daemon/phosd", "criu", "phosd sees the CPU half through an interface of ckpt"},
	{"daemon/phosd", "daemon/worker/session", "phosd knows a session only by its worker"},
	{"criu", "daemon", "the CPU half knows nothing of GPUs"},
	{"ckpt", "daemon", "the order of steps knows nothing of the services"},
	{"cli/pos_cli", "daemon/phosd", "the command speaks to phosd by daemon/api only"},
	{"cli/pos_cli", "daemon/worker", "the command speaks to phosd by daemon/api only"},
	{"cli/pos_cli", "daemon/gpu", "the command speaks to phosd by daemon/api only"},
	{"cluster", "daemon", "the cluster knows phosd by its agents only"},
	{"scheduler", "daemon", "policies are pure"},
}

// under reports whether path is prefix or lies below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// layering is a table of layers and the exceptions to it.
type layering struct {
	order     []string
	layers    map[string]string
	forbidden [][3]string
	allowed   [][2]string
}

// layer finds the row of the table that a package belongs to.
func (l layering) layer(path string) (row string, level int, found bool) {
	for candidate, name := range l.layers {
		if under(path, candidate) && len(candidate) >= len(row) {
			row, level, found = candidate, slices.Index(l.order, name), true
		}
	}
	return row, level, found
}

// unused lists the rows of the table that no package belongs to, and rows of unknown layers.
func (l layering) unused(packages []pkg) (found []string) {
	used := map[string]bool{}
	for _, p := range packages {
		row, _, _ := l.layer(strings.TrimPrefix(p.ImportPath, module+"/"))
		used[row] = true
	}
	for row, name := range l.layers {
		if !used[row] {
			found = append(found, fmt.Sprintf("row %s: no package stands there", row))
		}
		if !slices.Contains(l.order, name) {
			found = append(found, fmt.Sprintf("row %s: there is no layer %s", row, name))
		}
	}
	slices.Sort(found)
	return found
}

// breaches says what is wrong with the imports of some packages.
func (l layering) breaches(packages []pkg) (found []string) {
	for _, p := range packages {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		row, level, known := l.layer(from)
		if !known {
			found = append(found, fmt.Sprintf("%s stands in no layer: name it in the table", from))
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours {
				continue
			}
			if toRow, toLevel, _ := l.layer(to); toLevel >= level && toRow != row {
				found = append(
					found,
					fmt.Sprintf("%s (%s) imports %s (%s)", from, l.order[level], to, l.order[toLevel]),
				)
			}
			for _, rule := range l.forbidden {
				if under(from, rule[0]) && under(to, rule[1]) && !under(from, rule[1]) &&
					!slices.Contains(l.allowed, [2]string{from, to}) {
					found = append(found, fmt.Sprintf("%s imports %s: %s", from, to, rule[2]))
				}
			}
		}
	}
	return found
}

// allowed names the packages that a forbidden row is not meant for.
var allowed = [][2]string{
	{"daemon/gpu/cuda", "cgo/cudadrv"},
	{"daemon/gpu/cuda/devicelist", "cgo/cudadrv"},
	{"cluster/agent", "daemon/api"},
	{"cluster/agent/saver", "daemon/api"},
	{"cluster/agent/saver", "daemon/api/fdtoken"},
}

func TestLayers(t *testing.T) {
	packages := goList(t, "./...")
	rule := layering{order, layers, forbidden, allowed}
	for _, breach := range slices.Concat(rule.breaches(packages), rule.unused(packages)) {
		t.Error(breach)
	}
}

// TestLayeringFindsBreaches checks the rule itself with packages that do not exist.
func TestLayeringFindsBreaches(t *testing.T) {
	l := layering{
		order: []string{"low", "middle", "high", "top"},
		layers: map[string]string{
			"word":      "low",
			"edge":      "middle",
			"edge/deep": "high",
			"other":     "middle",
			"top":       "top",
		},
		forbidden: [][3]string{{"top", "other/secret", "only edge may"}},
		allowed:   [][2]string{{"top/friend", "other/secret"}},
	}
	for _, test := range []struct {
		name, from string
		imports    []string
		want       []string
	}{
		{"down", "edge", []string{"word", "word/part"}, nil},
		{"far down", "top/part", []string{"edge/deep/part", "word"}, nil},
		{"its own row", "edge/part", []string{"edge", "edge/sibling"}, nil},
		{"not ours", "word", []string{"fmt", "example.com/top"}, nil},
		{"up", "word/part", []string{"top"}, []string{"word/part (low) imports top (top)"}},
		{"sideways", "edge", []string{"other"}, []string{"edge (middle) imports other (middle)"}},
		{"up within a tree", "edge", []string{"edge/deep"}, []string{"edge (middle) imports edge/deep (high)"}},
		{"down within a tree", "edge/deep", []string{"edge"}, nil},
		{"same beginning of a name", "edgeless", nil, []string{"edgeless stands in no layer: name it in the table"}},
		{
			"forbidden", "top",
			[]string{"other", "other/secret/part"},
			[]string{"top imports other/secret/part: only edge may"},
		},
		{"allowed", "top/friend", []string{"other/secret"}, nil},
		{"two of three", "other", []string{"top", "word", "edge"}, []string{
			"other (middle) imports top (top)", "other (middle) imports edge (middle)",
		}},
	} {
		p := testPackage(test.from, test.imports...)
		if got := l.breaches([]pkg{p}); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	l.layers = map[string]string{"word": "low", "gone": "high", "edge": "nowhere"}
	want := []string{"row edge: there is no layer nowhere", "row gone: no package stands there"}
	if got := l.unused([]pkg{testPackage("word/part"), testPackage("edge")}); !slices.Equal(got, want) {
		t.Errorf("unused rows: %q, want %q", got, want)
	}
}

// testPackage makes a package of ours; imports without a domain or "fmt" are ours, too.
func testPackage(path string, imports ...string) pkg {
	p := pkg{ImportPath: module + "/" + path}
	for _, to := range imports {
		if !strings.Contains(to, ".") && to != "fmt" {
			to = module + "/" + to
		}
		p.Imports = append(p.Imports, to)
	}
	return p
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
	return slices.ContainsFunc(
		[]string{"_unsafe.go", "_unsafe_test.go"},
		func(suffix string) bool { return strings.HasSuffix(path, suffix) },
	)
}
