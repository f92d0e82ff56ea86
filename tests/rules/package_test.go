package rules

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestUntestedPackagesSayWhere: a package without tests of its own names the suite that drives it.
func TestUntestedPackagesSayWhere(t *testing.T) {
	tested, docs := map[string]bool{}, map[string]string{}
	for _, s := range sources(t, func(file) bool { return true }) {
		if s.isTest() {
			tested[s.dir()] = true
		} else if s.syntax.Doc != nil {
			docs[s.dir()] = s.syntax.Doc.Text()
		}
	}
	for dir, doc := range docs {
		if !tested[dir] && !under(dir, "tests") && !testedBy.MatchString(strings.Join(strings.Fields(doc), " ")) {
			t.Errorf(`%s has no tests: its package comment says "Tested by tests/SUITE"`, dir)
		}
	}
}

var testedBy = regexp.MustCompile(`Tested by (the tests of )?[a-z/_]+`)

// TestLockOrder: the comment of a package with more than one lock says how they are taken: in which
// order, or that no two are held at the same time.
func TestLockOrder(t *testing.T) {
	locks, docs := map[string]int{}, map[string]string{}
	for _, s := range sources(t, func(f file) bool { return product(f) && !under(f.path, "tests") }) {
		if s.syntax.Doc != nil {
			docs[s.dir()] = s.syntax.Doc.Text()
		}
		ast.Inspect(s.syntax, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && isMutex(selector) {
				locks[s.dir()]++
			}
			return true
		})
	}
	for dir, count := range locks {
		if count > 1 && !strings.Contains(strings.ToLower(docs[dir]), "lock") {
			t.Errorf("%s has %d locks: its package comment says in which order they are taken (\"# Locking\")", dir, count)
		}
	}
}

func isMutex(selector *ast.SelectorExpr) bool {
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "sync" && (selector.Sel.Name == "Mutex" || selector.Sel.Name == "RWMutex")
}

// maxMethods is how many methods a type may have: one that does everything hides what it does.
const maxMethods = 120

func TestMethodsOfTypes(t *testing.T) {
	methods, largest := map[string]int{}, ""
	for _, s := range sources(t, product) {
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			name := s.dir() + "." + receiver(f)
			if methods[name]++; methods[name] > methods[largest] {
				largest = name
			}
		}
	}
	t.Logf("%s has the most methods: %d", largest, methods[largest])
	for name, count := range methods {
		if count > maxMethods {
			t.Errorf("%s has %d methods of at most %d", name, count, maxMethods)
		}
	}
}

// receiver is the name of the type of a method.
func receiver(f *ast.FuncDecl) string {
	for expr := f.Recv.List[0].Type; ; {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return "?"
		}
	}
}

// folderShare is how much of all lines may lie in one folder below those at the top.
const folderShare = 0.25

func TestFolderSize(t *testing.T) {
	total, lines, largest := 0, map[string]int{}, ""
	for _, s := range sources(t, product) {
		parts := strings.Split(s.dir(), "/")
		if len(parts) < 2 {
			continue
		}
		folder := path.Join(parts[:2]...)
		total += s.lines()
		if lines[folder] += s.lines(); lines[folder] > lines[largest] {
			largest = folder
		}
	}
	t.Logf("%s is the largest folder: %d of %d lines", largest, lines[largest], total)
	if share := float64(lines[largest]) / float64(total); share > folderShare {
		t.Errorf("%s holds %.0f %% of all lines, at most %.0f", largest, 100*share, 100*folderShare)
	}
}

// TestOffered: ARCHITECTURE.md names the packages that other modules may import. Each has an
// Example function, and a package with one is named.
func TestOffered(t *testing.T) {
	_, list, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "\nOther modules may import ")
	list, _, found := strings.Cut(list, ".")
	if !found {
		t.Fatal("ARCHITECTURE.md does not say what other modules may import")
	}
	var offered, shown []string
	for _, match := range quotedPath.FindAllStringSubmatch(list, -1) {
		offered = append(offered, match[1])
	}
	for _, s := range sources(t, func(f file) bool { return strings.HasSuffix(f.path, "example_test.go") }) {
		for _, name := range declared(s.syntax) {
			if strings.HasPrefix(name.Name, "Example") && !slices.Contains(shown, s.dir()) {
				shown = append(shown, s.dir())
			}
		}
	}
	slices.Sort(offered)
	slices.Sort(shown)
	if !slices.Equal(offered, shown) {
		t.Errorf("ARCHITECTURE.md offers %q; these have an Example function: %q", offered, shown)
	}
}

// read returns a file of the tree.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readersOfProc are the files outside of internal/linux/proc that name a path below /proc, with the
// reason.
var readersOfProc = map[string]string{
	"cluster/store/etcd/server/servertest/process.go": "the test's own program",
	"daemon/worker/joblog/log.go":                     "the working directory of a program",
	"internal/linux/account/account.go":               "a setting of the kernel, not of a process",
	"internal/linux/rootdir/root.go":                  "the root directory of a process, opened once",
	"internal/linux/tcpowner/table.go":                "sockets of a network namespace, not of a process",
	"cluster/agent/saver/client.go":                   "the agent's own program",
	"cluster/agent/supervisor/harden.go":              "settings of the process itself",
	"cluster/agent/supervisor/request.go":             "a short path for a socket",
	"cluster/agent/supervisor/start.go":               "the agent's own program",
	"cluster/agent/supervisor/trunk/program.go":       "the agent's own program",
	"cli/pos_cli/ps.go":                               "the environment of the caller's own programs",
	"internal/linux/cgroup/legacy.go":                 "as find.go, for version 1",
	"internal/linux/inherit/files.go":                 "descriptors of the process itself",
	"criu/program.go":                                 "a directory in which CRIU can create nothing",
	"criu/runner/runner.go":                           "a directory that holds no plugin of CRIU",
	"criu/restorer/namespace.go":                      "mounts /proc, and sets the next pid of its namespace",
	"daemon/phosd/devices/guard/guard.go":             "/proc/devices: drivers, not processes",
}

// TestOneReaderOfProc: internal/linux/proc reads /proc for all other packages.
func TestOneReaderOfProc(t *testing.T) {
	named := map[string]bool{}
	for _, s := range sources(t, func(f file) bool {
		return product(f) && !under(f.path, "tests") && !under(f.path, "internal/linux/proc")
	}) {
		ast.Inspect(s.syntax, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if ok && literal.Kind == token.STRING && procPath.MatchString(literal.Value) {
				named[s.path] = true
				if readersOfProc[s.path] == "" {
					t.Errorf("%s:%d: %s: internal/linux/proc has what is read of /proc, and makes paths",
						s.path, s.set.Position(literal.Pos()).Line, literal.Value)
				}
			}
			return true
		})
	}
	for name := range readersOfProc {
		if !named[name] {
			t.Errorf("%s names no path below /proc: it is no exception", name)
		}
	}
}

var procPath = regexp.MustCompile("^[\"`]/proc(/|[\"`]$)")
