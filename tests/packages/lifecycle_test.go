package packages

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// suites are the distributions that the package is made for. Without PACKAGE=full, this machine's
// own and the next Debian are tested.
var suites = []struct {
	name   string
	sample bool
}{{"bookworm", false}, {"trixie", true}, {"jammy", false}, {"noble", false}}

// TestLifecycle installs, upgrades, removes and purges the packages in a bare root, as
// docs/packages.md says. A program runs during the upgrade, and is saved, killed and restored
// before it and after it. After the purge the root has the same files as before.
func TestLifecycle(t *testing.T) {
	dist := packages(t)
	own := strings.TrimSpace(shell(t, `. /etc/os-release; echo "$VERSION_CODENAME"`))
	for _, suite := range suites {
		if suite.name != own && !suite.sample && !full() {
			continue
		}
		t.Run(suite.name, func(t *testing.T) {
			root, err := harness.Tool("PACKAGE_ROOT_" + strings.ToUpper(suite.name))
			if suite.name == own {
				harness.Need(t, "packages", err)
			} else if err != nil {
				t.Skip(err) // for instance: apt's sources have no archive of Ubuntu
			}
			debs, err := harness.Tool("PACKAGE_DEBS_" + strings.ToUpper(suite.name))
			if suite.name == own {
				harness.Need(t, "packages", err)
			} else if err != nil {
				t.Log("without phos-criu: ", err)
			}
			t.Log(live(t, root, debs, dist))
		})
	}
}

// full reports whether everything is tested, and not only a sample.
func full() bool { return os.Getenv("PACKAGE") == "full" }

// packages returns the folder with the packages.
func packages(t *testing.T) string {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	dist, err := harness.Tool("PACKAGE_DIST")
	harness.Need(t, "packages", err)
	return dist
}

// shell runs a line of shell on this machine.
func shell(t *testing.T, line string) string {
	t.Helper()
	output, err := exec.Command("bash", "-euc", line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, output)
	}
	return string(output)
}

// testdata returns the path of a file of testdata.
func testdata(name string) string { return harness.Path("tests", "packages", "testdata", name) }

// write writes a file for a script, and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// program compiles the program that the scripts run, by this name.
func program(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(harness.CompileC(t, false, harness.Workload("checkpoint", "count.c")))
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "program", string(text))
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// live runs testdata/lifecycle.sh in a copy of a root, with namespaces of its own, and returns its
// output. debs is a repository with what the packages depend on, or empty.
func live(t *testing.T, root, debs, dist string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*harness.Patience)
	defer cancel()
	files, err := filepath.Glob(filepath.Join(dist, "*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, testdata("lifecycle.sh"), write(t, "install.sh", recipes(t)["install"]), program(t))
	arguments := []string{
		"--mount", "--pid", "--ipc", "--uts", "--net", "--fork", "--kill-child", "bash", testdata("enter.sh"),
		root, t.TempDir(), debs,
	}
	command := exec.CommandContext(ctx, "unshare", append(arguments, files...)...)
	command.WaitDelay = harness.Patience / 10
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}
