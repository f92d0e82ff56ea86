package script

import (
	"bufio"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestInstall installs what build.sh has built into a prefix, uses it, and uninstalls it.
func TestInstall(t *testing.T) {
	harness.Need(t, "build", harness.Built())
	harness.Need(t, "root", harness.Root())
	prefix := filepath.Join(t.TempDir(), "prefix")
	install := func(function string) {
		t.Helper()
		shell := exec.Command(
			"bash",
			"-euc",
			". scripts/lib.sh; . scripts/verbs.sh; BIN=$1; "+function+` "$2"`,
			"bash",
			harness.Bin(),
			prefix,
		)
		shell.Dir = harness.Path()
		shell.Env = append(os.Environ(), "PHOS_CACHE="+t.TempDir(), "DESTDIR=")
		if output, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", function, err, output)
		}
	}
	install("install_tree")
	install("install_tree") // a second time, as for an update
	for _, file := range []string{
		"lib/phos/current/libphos.so", "lib/phos/current/libcuda.so.1", "lib/phos/current/libnvidia-ml.so.1",
		"share/man/man1/pos_cli.1", "share/man/man1/phos.1", "share/man/man8/phos-controller.8",
		"share/man/man8/phos-agent.8", "share/man/man5/phosd.toml.5", "share/man/man5/pos.yaml.5", "share/man/man8/phosd.8",
		"share/bash-completion/completions/pos_cli", "lib/systemd/system/phosd.service",
		"lib/systemd/system/phos-controller.service", "lib/systemd/system/phos-agent.service", "bin/phos",
	} {
		if _, err := os.Stat(filepath.Join(prefix, file)); err != nil {
			t.Error(err)
		}
	}
	works(t, prefix)
	install("uninstall_tree")
	if err := filepath.WalkDir(prefix, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			t.Errorf("%s was left behind", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// works runs a program with an installation, which must find its own parts.
func works(t *testing.T, prefix string) {
	t.Helper()
	run, err := os.MkdirTemp("/run", "phos-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(run)
	defer func() { _ = unix.Unmount(filepath.Join(run, "sessions"), unix.MNT_DETACH) }()
	program := harness.CompileC(t, false, harness.Workload("checkpoint", "count.c"))
	prepare := func(command ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		t.Cleanup(cancel)
		shell := exec.CommandContext(ctx, "/usr/bin/env", command...)
		shell.Dir, shell.WaitDelay = t.TempDir(), harness.Patience/10
		shell.Env = []string{
			"PATH=" + filepath.Join(prefix, "bin") + ":/usr/bin:/bin",
			"PHOS_SOCKET=" + filepath.Join(run, "phosd.sock"),
			"HOME=" + run,
		}
		return shell
	}
	// Stop phosd also if a check fails.
	defer func() { _ = prepare("pos_cli", "--stop", "--force").Run() }()
	cli := func(want string, command ...string) {
		t.Helper()
		if output, err := prepare(command...).CombinedOutput(); err != nil || !strings.Contains(string(output), want) {
			t.Errorf("%v: %v, want %q:\n%s", command, err, want, output)
		}
	}
	cli(filepath.Join(prefix, "lib/phos"), "pos_cli", "--env")
	cli(
		"phosd",
		"pos_cli",
		"--start",
		"--config="+os.DevNull,
		"--runtime-dir="+run,
		"--set",
		"state_dir="+filepath.Join(run, "state"),
		"--gpus=soft:1",
	)
	cli("3", "sh", "-c", `eval "$(pos_cli --env)"; env $phos "$0" 4 1000 0; test $? = 7`, program)
	stopped(t, prefix, run, program, prepare)
}

// stopped checks that an uninstallation stops phosd, but not while a program runs.
func stopped(t *testing.T, prefix, run, program string, prepare func(command ...string) *exec.Cmd) {
	t.Helper()
	running := prepare("pos_cli", "run", "--", program, "1000000", "1000", "1000", filepath.Join(run, "finish"))
	output, err := running.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		t.Fatal("the program made no step")
	}
	stop := func() (string, error) {
		shell := prepare("bash", "-euc",
			`cd "$0"; for part in lib go verbs; do . scripts/$part.sh; done; stop_installed "$1"`,
			harness.Path(), prefix)
		shell.Env = append(shell.Env, "PHOS_CACHE="+t.TempDir())
		said, err := shell.CombinedOutput()
		return string(said), err
	}
	if said, err := stop(); err == nil || !strings.Contains(said, "end the programs, or save them") {
		t.Errorf("uninstall while a program runs: %v: %s", err, said)
	}
	if err := os.WriteFile(filepath.Join(run, "finish"), nil, 0o600); err != nil {
		t.Error(err)
	}
	for lines.Scan() {
	}
	_ = running.Wait() // its status says how it was ended
	if running.ProcessState.ExitCode() != 7 {
		t.Errorf("the program ended with %v, want 7", running.ProcessState)
	}
	if said, err := stop(); err != nil {
		t.Errorf("uninstall: %v: %s", err, said)
	}
	if said, err := prepare("pos_cli", "--status").CombinedOutput(); err == nil {
		t.Errorf("phosd still runs: %s", said)
	}
}

// TestUninstallSays: an uninstallation removes the source of packages that an installation has
// added, and says that and what stays.
func TestUninstallSays(t *testing.T) {
	added := filepath.Join(t.TempDir(), "phos-backports.list")
	if err := os.WriteFile(added, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("bash", "-euc",
		`for part in lib go verbs; do . scripts/$part.sh; done; BACKPORTS=$0; forget_backports; tell_what_stays`, added)
	shell.Dir = harness.Path()
	said, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, want := range []string{"removed " + added, "the Go from there stays", "images of programs", "/var/lib/phos"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("said %q, want %q in it", said, want)
		}
	}
	if _, err := os.Stat(added); !os.IsNotExist(err) {
		t.Errorf("the source of packages is still there: %v", err)
	}
}
