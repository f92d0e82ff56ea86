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

// suites are the distributions that the package is made for. Without PACKAGE=full, only this
// machine's own is tested.
var suites = []string{"bookworm", "trixie", "jammy", "noble"}

// TestLifecycle installs, upgrades, removes and purges the package in a bare root. A program runs
// during the upgrade. After the purge the root has the same files as before.
func TestLifecycle(t *testing.T) {
	dist := packages(t)
	own := strings.TrimSpace(shell(t, `. /etc/os-release; echo "$VERSION_CODENAME"`))
	program := harness.CompileC(t, false, harness.Workload("checkpoint", "count.c"))
	for _, suite := range suites {
		if suite != own && !full() {
			continue
		}
		t.Run(suite, func(t *testing.T) {
			root, err := harness.Tool("PACKAGE_ROOT_" + strings.ToUpper(suite))
			if suite == own {
				harness.Need(t, "packages", err)
			} else if err != nil {
				t.Skip(err) // for instance: apt's sources have no archive of Ubuntu
			}
			t.Log(enter(t, root, "lifecycle.sh", dist, program))
		})
	}
}

// full reports whether everything is tested, not only this machine's distribution.
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

// enter runs a script of testdata in a copy of a root, with namespaces of its own, and returns its
// output. The folder of packages and the program are there as /srv/dist and /srv/program.
func enter(t *testing.T, root, script, dist, program string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*harness.Patience)
	defer cancel()
	testdata := harness.Path("tests", "packages", "testdata")
	command := exec.CommandContext(
		ctx, "unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child",
		"bash", filepath.Join(testdata, "enter.sh"), root, t.TempDir(), dist, program, filepath.Join(testdata, script),
	)
	command.WaitDelay = harness.Patience / 10
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, output)
	}
	return string(output)
}
