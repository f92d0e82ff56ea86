package hostile

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// disguised makes a pos_cli of the user run in namespaces of its own, in which a directory of the
// user's has any path: dir, below base.
func (u *user) disguised(d *harness.Daemon, base, dir string, arguments ...string) *exec.Cmd {
	u.t.Helper()
	text, err := run(u.t, u.as(exec.Command("unshare", "--user", "--map-root-user", "--mount", "true")))
	if err != nil {
		u.t.Skipf("users have no namespaces: %v: %s", err, text)
	}
	cli := d.Command(arguments...)
	command := exec.Command("unshare", append([]string{
		"--user", "--map-root-user", "--mount", "sh", "-euc",
		`base=$1 dir=$2; shift 2; mount -t tmpfs none "$base"; mkdir -p "$dir"; exec "$@"`, "sh", base, dir, cli.Path,
	}, cli.Args[1:]...)...)
	command.Env = cli.Env
	return u.as(command)
}

// TestDisguisedDirectory: bob saves a program in a directory that has the path of an image of
// alice's, in a mount namespace of bob's. Alice's image is removed all the same when alice's next
// one needs its room.
func TestDisguisedDirectory(t *testing.T) {
	a, b := alice(t), bob(t)
	base := sharedDirectory(t)
	d := start(t, "--checkpoint-dir="+base, "--checkpoint-every=1s", "--checkpoint-keep=1", "--users-image-bytes=72MiB")
	program := a.programIn(d, "first", "", fills)
	waitFor(t, "the first program is saved", func() bool { return a.status(d, program).Checkpoint.Generation != nil })
	gone(t, program)
	first := a.imagesIn(base)[0]
	squatter := b.programIn(d, "squatter", "checkpoint: {dir: own, every: 100h}\n", onGPU+"ready()")
	path := filepath.Join(base, "61241", first)
	if text, err := run(t, b.disguised(d, base, path, "--pre-dump", "--dir", path, "--pid", pid(squatter))); err != nil {
		t.Fatalf("bob's checkpoint: %v: %s", err, text)
	}
	if got := b.status(d, squatter).Checkpoint.Dir; !strings.HasSuffix(got, first) {
		t.Fatalf("bob's image is in %s, want the path of alice's", got)
	}
	a.programIn(d, "next", "", fills)
	waitFor(t, "the first image is removed", func() bool { return !slices.Contains(a.imagesIn(base), first) })
	d.LogContains("reason=quota")
}
