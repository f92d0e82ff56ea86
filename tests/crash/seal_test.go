package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// ordinary is the id of a user without an account on the test machine.
const ordinary = 61235

func asUser(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary, Groups: []uint32{ordinary}},
	}
}

// TestSeal: an image with the seal of another machine can be restored by root. Other users can
// restore it after root has imported that machine's key.
func TestSeal(t *testing.T) {
	r := newFixture(t)
	r.finishAndCompare()
	chownAll(t, filepath.Dir(r.job.Dir))
	r.job.Prepare = asUser
	r.job.Start()
	r.job.WaitLines(3)
	if text, err := r.runAsUser("--dump", "--dir", r.job.Image, "--pid", strconv.Itoa(r.job.PID)); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	r.job.Finish()
	r.cleanWith(0, 0)
	keys := r.daemon.State
	other := startDaemon(t)
	first := r.daemon
	r.daemon = other
	text, err := r.runAsUser("--restore", "--detach", "--dir", r.job.Image)
	if err == nil || !strings.Contains(text, "not permitted") || !strings.Contains(text, "key that is not known here") {
		t.Errorf("%v: %s", err, text)
	}
	if err := os.WriteFile(
		filepath.Join(other.State, "keys", "other.key"), []byte(read(t, keys+"/key/seal")), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	if text, err := r.runAsUser("--restore", "--detach", "--dir", r.job.Image); err != nil {
		t.Fatalf("with the key of the other machine: %v: %s", err, text)
	}
	r.stillRuns()
	r.job.Kill()
	// An image of another user is refused, whatever its seal.
	command := first.Command("--restore", "--detach", "--dir", r.job.Image)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary + 1, Gid: ordinary}}
	if err := os.Chmod(r.job.Image, 0o755); err != nil {
		t.Fatal(err)
	}
	if output, err := command.CombinedOutput(); err == nil {
		t.Errorf("another user could restore it: %s", output)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runAsUser runs pos_cli as the ordinary user.
func (r *fixture) runAsUser(arguments ...string) (string, error) {
	command := r.daemon.Command(arguments...)
	asUser(command)
	output, err := command.CombinedOutput()
	return string(output), err
}

// chownAll gives a directory and all below it to the ordinary user, and makes its parents
// accessible.
func chownAll(t testing.TB, root string) {
	t.Helper()
	for _, dir := range []string{root, filepath.Dir(root)} { // both were created by the test
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, ordinary, ordinary)
	})
	if err != nil {
		t.Fatal(err)
	}
}
