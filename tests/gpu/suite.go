package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// suite is a package of tests that was compiled beforehand; each of its tests is a row.
type suite struct {
	part, directory string
	// only are the tests that mean something on a real GPU, as -test.list understands it.
	only  string
	needs []fact
	limit time.Duration
}

var suites = []suite{
	{"gputest", "tests/nesting", ".", []fact{hasGPU}, 5 * time.Minute},
	{"programs", "tests/e2e", ".", []fact{hasGPU, isRoot}, 3 * time.Minute},
	{"checkpoint", "tests/checkpoint", ".", []fact{hasGPU, isRoot, hasCRIU, mayTrace, mayMount, mayFreeze}, 4 * time.Minute},
}

// binary is where build.sh puts the compiled tests.
func (s suite) binary(m *machine) string {
	return filepath.Join(m.root, "bin/checks", strings.ReplaceAll(s.directory, "/", "-")+".test")
}

// rows are the tests that the binary says it has.
func (s suite) rows(ctx context.Context, m *machine) []row {
	listed, err := s.command(ctx, m, "-test.list="+s.only).Output()
	if err != nil {
		return []row{{part: s.part, name: "all", limit: time.Second, show: func(context.Context, *machine) ([]figure, error) {
			return nil, fmt.Errorf("list the tests of %s: %w; run ./build.sh gpu, which compiles them", s.directory, err)
		}}}
	}
	var rows []row
	for _, name := range strings.Fields(string(listed)) {
		if !strings.HasPrefix(name, "Test") {
			continue
		}
		rows = append(rows, row{s.part, name, s.needs, s.limit, func(ctx context.Context, m *machine) ([]figure, error) {
			return nil, s.test(ctx, m, name)
		}})
	}
	return rows
}

// command runs the binary where "go test" would, against the machine's driver.
func (s suite) command(ctx context.Context, m *machine, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, s.binary(m), arguments...)
	command.Dir = filepath.Join(m.root, s.directory)
	command.Env = append(os.Environ(), "PHOS_ROOT="+m.root, "PHOS_TEST_GPUS=cuda"+m.driverSuffix(),
		"PHOS_COMPILED="+filepath.Join(m.root, "bin/checks/compiled"), "CRIU="+m.criu, "TORCH_PYTHON="+m.python)
	// A test that hangs has started things; they go with it.
	command.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return unix.Kill(-command.Process.Pid, unix.SIGKILL) }
	return command
}

// test runs one test. What it prints is kept in a file beside the results only when it fails.
func (s suite) test(ctx context.Context, m *machine, name string) error {
	output, err := s.command(ctx, m, "-test.v", "-test.run=^"+name+"$").CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("not done after %s", s.limit)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w\n%s", err, complaint(output))
	case bytes.Contains(output, []byte("\n--- SKIP: "+name)):
		return skip{complaint(output)}
	case !bytes.Contains(output, []byte("--- PASS: "+name)):
		return errors.New("the test neither passed nor failed nor skipped")
	}
	return nil
}

// complaint is the end of what a test printed, which says why it failed or skipped.
func complaint(output []byte) string {
	const most = 40
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
