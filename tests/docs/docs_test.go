package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/worker/jobfile"
	"github.com/phos-gpu/phos/tests/harness"
)

// elsewhere are documents whose commands a suite of their own runs.
var elsewhere = map[string]string{
	"docs/containers.md": "tests/containers",
	"docs/packages.md":   "tests/packages",
	"docs/python.md":     "tests/cluster",
	"docs/slurm.md":      "tests/slurm",
}

// TestElsewhere: the suite of each of these documents opens it.
func TestElsewhere(t *testing.T) {
	for document, suite := range elsewhere {
		if _, err := os.Stat(harness.Path(document)); err != nil {
			t.Error(err)
		}
		files, err := filepath.Glob(harness.Path(suite, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(path string) bool { return hasValue(t, path, document) }) {
			t.Errorf("%s does not open %s", suite, document)
		}
	}
}

// hasValue reports whether a Go file has a string of this value.
func hasValue(t *testing.T, path, value string) (found bool) {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(syntax, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		found = found || ok && literal.Kind == token.STRING && literal.Value == strconv.Quote(value)
		return !found
	})
	return found
}

// documents returns README.md and the documents of docs/.
func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(harness.Path("docs/*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("documents: %v, %v", found, err)
	}
	all := []string{"README.md"}
	for _, path := range found {
		all = append(all, "docs/"+filepath.Base(path))
	}
	return all
}

// here returns the documents whose commands this suite runs.
func here(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(documents(t), func(name string) bool { return elsewhere[name] != "" })
}

// mostNotRun is how many blocks of all documents may have commands that no test runs.
const mostNotRun = 5

// TestCommands runs the commands of each document. A block without a language has commands, unless
// it is marked as a file.
func TestCommands(t *testing.T) {
	notRun := 0
	for _, name := range here(t) {
		var blocks []block
		for _, b := range readBlocks(t, name) {
			_, file := b.marks["file"]
			why, skip := b.marks["not run"]
			switch {
			case skip:
				notRun++
				t.Logf("%s:%d is not run: %s", name, b.line, why)
			case !file && b.language == "" && b.marks["tested by"] == "":
				blocks = append(blocks, b)
			}
		}
		if len(blocks) > 0 {
			t.Run(filepath.Base(name), func(t *testing.T) { runBlocks(t, name, blocks) })
		}
	}
	if notRun > mostNotRun {
		t.Errorf("%d blocks are not run; at most %d", notRun, mostNotRun)
	}
}

// checkTest wants a test by its directory and name.
func checkTest(t *testing.T, name string) {
	t.Helper()
	directory, test, _ := strings.Cut(name, " ")
	files, err := filepath.Glob(harness.Path(directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "\nfunc "+test+"(t *testing.T)") {
			return
		}
	}
	t.Errorf("%s has no %s", directory, test)
}

// TestTested: the tests exist that blocks name.
func TestTested(t *testing.T) {
	for _, name := range documents(t) {
		for _, b := range readBlocks(t, name) {
			if by := b.marks["tested by"]; by != "" {
				checkTest(t, by)
			}
		}
	}
}

// runBlocks runs the blocks of a document in a place of its own. phos is installed there and
// runs, except before a block that installs it.
func runBlocks(t *testing.T, name string, blocks []block) {
	p := newPlace(t)
	const install = "./build.sh install && pos_cli --start"
	p.do(install)
	for _, b := range blocks {
		user := "root"
		if as, ok := b.marks["as"]; ok {
			user = as
		}
		text := strings.Join(b.lines, "\n")
		if strings.Contains(text, "./build.sh install") {
			p.do("pos_cli --stop && ./build.sh uninstall")
		}
		for _, c := range b.commands() {
			output, status := p.run(user, c.text)
			t.Logf("%s:%d: %s\n%s", name, c.line, c.text, strings.Join(output, "\n"))
			if status != 0 {
				t.Fatalf("%s:%d: %s: exit status %d", name, c.line, c.text, status)
			}
			if missing, ok := shows(output, c.output); !ok {
				t.Fatalf("%s:%d: the output of %s has no line like %q", name, c.line, c.text, missing)
			}
		}
		if strings.Contains(text, "./build.sh uninstall") {
			p.do(install)
		}
	}
}

var (
	quantity = regexp.MustCompile(`[0-9][0-9.,]*(?: ?(?:ms|µs|[smhd%]|B|KiB|MiB|GiB))?\b%?`)
	spaces   = regexp.MustCompile(`\s+`)
)

// shape returns a line of output without what differs from run to run: quantities and the widths of
// columns.
func shape(line string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(quantity.ReplaceAllString(line, "N"), " "))
}

// shows reports whether the output has lines of the shapes that the document shows, in their order.
// A line "..." stands for any lines. If not, missing is the first line that is not there.
func shows(output, document []string) (missing string, ok bool) {
	for _, want := range document {
		if want == "" || want == "..." {
			continue
		}
		at := slices.IndexFunc(output, func(line string) bool { return shape(line) == shape(want) })
		if at < 0 {
			return want, false
		}
		output = output[at+1:]
	}
	return "", true
}

func TestShows(t *testing.T) {
	output := []string{
		"step 1",
		"generation 1: paused 39.8ms, took 265.76ms, wrote 10.5 MiB",
		"GPU  NAME",
		"0    x  7 %",
	}
	for _, test := range []struct {
		document []string
		ok       bool
	}{
		{[]string{"generation 2: paused 1.2s, took 3s, wrote 9 GiB", "...", "0 x 100 %"}, true},
		{[]string{"GPU NAME", "generation 2: paused 1.2s, took 3s, wrote 9 GiB"}, false},
		{[]string{"generation 2: paused 1.2s, took 3s, wrote 9 GiB, shared 1 B"}, false},
	} {
		if _, ok := shows(output, test.document); ok != test.ok {
			t.Errorf("%q: got %v, want %v", test.document, ok, test.ok)
		}
	}
}

// TestFiles parses the blocks that are files of phos.
func TestFiles(t *testing.T) {
	for _, name := range here(t) {
		for _, b := range readBlocks(t, name) {
			text := []byte(strings.Join(b.lines, "\n") + "\n")
			var err error
			switch kind := b.marks["file"]; kind {
			case "":
				continue
			case "phosd.toml":
				_, err = config.Parse(kind, text)
			case "pos.yaml":
				_, err = jobfile.Parse(kind, text)
			default:
				t.Errorf("%s:%d: no parser for %s", name, b.line, kind)
			}
			if err != nil {
				t.Errorf("%s:%d: %v", name, b.line, err)
			}
		}
	}
}

var (
	inline   = regexp.MustCompile("`((?:pos_cli|\\./build\\.sh) [^`]*)`")
	flagName = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// TestInline looks at commands within sentences: their verbs and flags must exist.
func TestInline(t *testing.T) {
	harness.Need(t, "build", harness.Built())
	help := func(program string, arguments ...string) string {
		said, _ := exec.Command(program, append([]string{"help"}, arguments...)...).Output()
		return string(said)
	}
	cli := filepath.Join(harness.Bin(), "pos_cli")
	for _, name := range documents(t) {
		text, err := os.ReadFile(harness.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range inline.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(match[1])
			if words[0] == "./build.sh" {
				if !regexp.MustCompile(
					`(?m)^ +`+regexp.QuoteMeta(words[1])+`\b`,
				).MatchString(
					help(harness.Path("build.sh")),
				) &&
					!strings.Contains(help(harness.Path("build.sh")), `"`+words[1]) {
					t.Errorf("%s: `%s`: there is no such verb", name, match[1])
				}
				continue
			}
			checkFlags(t, name, match[1], func(verb ...string) string { return help(cli, verb...) })
		}
	}
}

// checkFlags wants a verb of pos_cli that has the flags of a command.
func checkFlags(t *testing.T, name, text string, help func(verb ...string) string) {
	t.Helper()
	words := strings.Fields(text)
	verb := strings.TrimPrefix(words[1], "--")
	described := help(words[1]) // stop and --stop are two verbs
	if len(words) > 2 && regexp.MustCompile(`^[a-z]+$`).MatchString(words[2]) {
		described += help(verb, words[2])
	}
	if verb == "help" && words[2] == strings.ToUpper(words[2]) {
		return
	}
	if verb == "help" {
		described = help(words[2:]...)
	}
	if described == "" {
		t.Errorf("%s: `%s`: there is no verb %s", name, text, words[1])
		return
	}
	before, _, _ := strings.Cut(text, " -- ")
	for _, flag := range flagName.FindAllStringSubmatch(before, -1)[min(1, strings.Count(words[1], "--")):] {
		if !strings.Contains(described, flag[1]) {
			t.Errorf("%s: `%s`: there is no flag %s", name, text, flag[1])
		}
	}
}
