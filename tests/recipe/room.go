package recipe

import (
	"bytes"
	"context"
	_ "embed" // of the script
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

//go:embed room.sh
var roomScript string

// Room is a machine for recipes, with phos installed in /usr/local: this one, in namespaces of its
// own, with empty directories where recipes and daemons write.
type Room struct {
	t      *testing.T
	init   int
	blocks []Block
	// used are the names of the blocks that the test has used.
	used map[string]bool
}

// NewRoom makes a room for the recipes of a document. The test fails if it leaves one out.
func NewRoom(t *testing.T, document string) *Room {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	criu, err := harness.CRIU()
	harness.Need(t, "criu", err)
	r := &Room{t: t, used: map[string]bool{}}
	r.read(document)
	r.init = harness.InNamespaces(t, []string{"--mount", "--net", "--uts", "--ipc", "--mount-proc"},
		"bash", "-c", roomScript, "room.sh", install(t, criu), disk(t))
	return r
}

// read reads the document, and checks at the end of the test that all its blocks were used.
func (r *Room) read(document string) {
	r.t.Helper()
	file, err := os.Open(harness.Path(document))
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	if r.blocks, err = Read(file); err != nil {
		r.t.Fatalf("%s: %v", document, err)
	}
	r.t.Cleanup(func() {
		for _, each := range r.blocks {
			if !r.used[each.Name] && !r.t.Failed() && !r.t.Skipped() {
				r.t.Errorf("%s: the test does not use %s", document, each.Name)
			}
		}
	})
}

// disk returns a directory on a disk, for layers of containers: overlays do not lie on overlays.
func disk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "phos-recipe-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // as /var/lib
		t.Fatal(err)
	}
	return dir
}

// install installs what was built into a directory, with CRIU.
func install(t *testing.T, criu string) string {
	t.Helper()
	root := t.TempDir()
	shell := exec.Command("bash", "-euc", `. scripts/lib.sh; . scripts/verbs.sh; BIN=$1; install_tree /usr/local
		install -D -m 755 "$2" "$DESTDIR/usr/local/lib/phos/criu/criu"`, "bash", harness.Bin(), criu)
	shell.Dir = harness.Path()
	shell.Env = append(os.Environ(), "PHOS_CACHE="+t.TempDir(), "DESTDIR="+root)
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, output)
	}
	return filepath.Join(root, "usr/local")
}

// Try runs a script in the room and returns its output. What it starts in the background goes on.
func (r *Room) Try(script string) (string, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	command := exec.CommandContext(
		ctx,
		"nsenter",
		"--target",
		strconv.Itoa(r.init),
		"--mount",
		"--pid",
		"--net",
		"--uts",
		"--ipc",
		"--wdns=/root",
		"setsid",
		"--wait",
		"bash",
		"-euo",
		"pipefail",
		"-c",
		script,
	)
	command.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"LANG=C.UTF-8",
	}
	var said bytes.Buffer
	command.Stdout, command.Stderr, command.WaitDelay = &said, &said, time.Second
	err := command.Run()
	return said.String(), err
}

// Run runs a script, which must succeed, and returns its output.
func (r *Room) Run(script string) string {
	r.t.Helper()
	said, err := r.Try(script)
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, said)
	}
	return said
}

// Recipe runs the commands of that name, which must succeed, and returns their output.
func (r *Room) Recipe(name string) string {
	r.t.Helper()
	return r.Run(r.Text(name))
}

// RecipeAs runs the commands of that name as a user, in a directory. They must succeed.
func (r *Room) RecipeAs(user, dir, name string) string {
	r.t.Helper()
	r.Write("/run/"+name+".sh", r.Text(name))
	return r.Run(
		fmt.Sprintf(
			"cd %[2]s; setpriv --reuid %[1]s --regid %[1]s --clear-groups env HOME=%[2]s bash -eu /run/%[3]s.sh",
			user,
			dir,
			name,
		),
	)
}

// File writes the file of that path, as the document has it.
func (r *Room) File(path string) {
	r.t.Helper()
	r.Write(path, r.Text(path))
}

// Write writes a file in the room.
func (r *Room) Write(path, text string) {
	r.t.Helper()
	at := filepath.Join(fmt.Sprintf("/proc/%d/root", r.init), path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// Text returns the text of that name.
func (r *Room) Text(name string) string {
	r.t.Helper()
	for _, each := range r.blocks {
		if each.Name == name {
			r.used[name] = true
			return each.Text
		}
	}
	r.t.Fatalf("the document has no %s", name)
	return ""
}

// Eventually waits until a script succeeds, and fails the test after a time limit.
func (r *Room) Eventually(script string) {
	r.t.Helper()
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		said, err := r.Try(script)
		if err == nil {
			return
		}
		if time.Since(start) > harness.Patience {
			r.t.Fatalf("timed out: %s: %v\n%s", script, err, said)
		}
	}
}

// Background starts the commands of that name. Their output is in /run/NAME.log, and their status,
// once they have ended, in /run/NAME.status.
func (r *Room) Background(name string) {
	r.t.Helper()
	r.Write("/run/"+name+".sh", r.Text(name))
	r.Run(
		fmt.Sprintf(
			"(bash -eu /run/%[1]s.sh && code=0 || code=$?; echo $code >/run/%[1]s.status) >/run/%[1]s.log 2>&1 &",
			name,
		),
	)
}
