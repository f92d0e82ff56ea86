package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// suite is a package of tests that was compiled in advance; each of its tests is a row.
type suite struct {
	part, directory string
	// prefix precedes the rows' names, if another suite of the part has tests of the same name.
	prefix string
	// only and leave are patterns as for -test.list: the tests that are meaningful on a real GPU.
	only, leave string
	// first are the tests that run before the others.
	first        []string
	needs        []fact
	about, limit time.Duration
}

// binary is the path of the compiled tests.
func (s suite) binary(m *machine) string {
	return filepath.Join(m.root, "bin/checks", strings.ReplaceAll(s.directory, "/", "-")+".test")
}

// rows returns the tests that the binary lists.
func (s suite) rows(ctx context.Context, m *machine) []row {
	listed, err := exec.CommandContext(ctx, s.binary(m), "-test.list="+s.only).Output()
	if err != nil {
		return []row{
			{
				part:  s.part,
				name:  s.prefix + "all",
				limit: time.Second,
				show: func(context.Context, *machine) ([]figure, error) {
					return nil, fmt.Errorf(
						"list the tests of %s: %w; run ./build.sh gpu, which compiles them",
						s.directory,
						err,
					)
				},
			},
		}
	}
	leave := regexp.MustCompile(cmp.Or(s.leave, "^$"))
	names := slices.DeleteFunc(strings.Fields(string(listed)), func(name string) bool {
		return !strings.HasPrefix(name, "Test") || leave.MatchString(name)
	})
	slices.SortStableFunc(names, func(a, b string) int { return s.place(a) - s.place(b) })
	var rows []row
	for _, name := range names {
		rows = append(
			rows,
			row{
				s.part,
				s.prefix + name,
				s.needs,
				s.about,
				s.limit,
				func(ctx context.Context, m *machine) ([]figure, error) {
					return s.test(ctx, m, name)
				},
			},
		)
	}
	return rows
}

// place returns the position of a test in the order; a test that is not among the first comes last.
func (s suite) place(name string) int {
	if at := slices.Index(s.first, name); at >= 0 {
		return at
	}
	return len(s.first)
}

// command runs the binary in the directory that "go test" would use, with the machine's driver.
func (s suite) command(ctx context.Context, m *machine, arguments ...string) (*exec.Cmd, error) {
	command := exec.CommandContext(
		ctx,
		s.binary(m),
		append([]string{"-test.v", "-test.short", "-test.timeout=0"}, arguments...)...)
	command.Dir = filepath.Join(m.root, s.directory)
	command.Env = append(
		os.Environ(),
		"PHOS_ROOT="+m.root,
		"PHOS_TEST_GPUS=cuda"+m.driverSuffix(),
		"PHOS_TEST_LOGS="+filepath.Join(m.failures(), "logs"),
		"PHOS_COMPILED="+filepath.Join(
			m.root,
			"bin/checks/compiled",
		),
		"CRIU="+m.criu,
		fmt.Sprintf("PHOS_TEST_SLOWNESS=%g", m.slowness),
		fmt.Sprintf(
			"PHOS_TORCH_SCALE=%g",
			m.scale,
		),
		fmt.Sprintf("PHOS_TORCH_SAVED_SCALE=%g", m.scale/2),
		fmt.Sprintf("PHOS_TORCH_STEPS=%d", m.steps),
	)
	if _, lacks := m.lacks[hasTorch]; !lacks {
		command.Env = append(command.Env, "TORCH_PYTHON="+m.python)
	}
	return command, withAttendant(command, m.places)
}

// test runs one test. Its output is kept only if it fails.
func (s suite) test(ctx context.Context, m *machine, name string) ([]figure, error) {
	command, err := s.command(ctx, m, "-test.run=^"+name+"$")
	if err != nil {
		return nil, err
	}
	output, err := command.CombinedOutput()
	switch {
	case err != nil:
		return nil, m.failure(s.part+"-"+s.prefix+name, err, output)
	case bytes.Contains(output, []byte("\n--- SKIP: "+name)):
		return nil, skip{complaint(output)}
	case !bytes.Contains(output, []byte("--- PASS: "+name)):
		return nil, errors.New("the test neither passed nor failed nor skipped")
	}
	return subtests(output)
}

// left matches the line of a skipped subtest, and why matches its reason.
var (
	left = regexp.MustCompile(`(?m)^ +--- SKIP: [^/]+/(\S+)`)
	done = regexp.MustCompile(`(?m)^ +--- PASS: `)
)

// subtests counts the parts of a test that passed, and those that were skipped. All of them may
// have been skipped.
func subtests(output []byte) ([]figure, error) {
	skips, passes := left.FindAllSubmatch(output, -1), len(done.FindAll(output, -1))
	if len(skips) == 0 {
		return nil, nil
	}
	if passes == 0 {
		return nil, skip{complaint(output)}
	}
	var names []string
	for _, each := range skips {
		names = append(names, string(each[1]))
	}
	return []figure{{Name: "parts passed", Value: float64(passes), Note: "skipped: " + strings.Join(names, ", ")}}, nil
}

// tedious matches lines that do not help to find a failure.
var tedious = regexp.MustCompile(`^ *(=== |--- PASS|--- SKIP|PASS$)|level=(DEBUG|INFO)`)

// complaint returns the last output of a test that says why it failed or skipped.
func complaint(output []byte) string {
	const most = 40
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	lines = slices.DeleteFunc(lines, tedious.MatchString)
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// failure stores the complete output of a row in a file beside the table, and returns an error with
// its end.
func (m *machine) failure(name string, err error, output []byte) error {
	path := filepath.Join(m.failures(), name+".log")
	if mkdir := os.MkdirAll(filepath.Dir(path), 0o755); mkdir == nil {
		_ = os.WriteFile(path, fmt.Appendf(slices.Clip(output), "\n== the kernel's log\n%s\n", kernelLog()), 0o644)
	}
	return fmt.Errorf("%w (complete output: %s)\n%s", err, path, complaint(output))
}
