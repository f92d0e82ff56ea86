package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Records for the analysis of a failure after the machine is gone.

// failures is the directory of these records, beside the table.
func (m *machine) failures() string { return filepath.Join(m.results, "gpu-failed") }

// questions about the machine, in the order of their answers.
var questions = []struct {
	file    string
	command []string
}{
	{file: "/proc/driver/nvidia/version"},
	{file: "/proc/driver/nvidia/params"},
	{file: "/etc/os-release"},
	{file: "/proc/self/limits"},
	{file: "/proc/self/status"},
	{file: "/proc/self/mounts"},
	{command: []string{"uname", "-a"}},
	{command: []string{"ldconfig", "-p"}},
	{command: []string{"ls", "-ln", "/dev"}},
	{command: []string{"nvidia-smi", "-q"}},
}

// record writes a description of the machine. Facts that it does not provide are left out.
func (m *machine) record(ctx context.Context) error {
	var text strings.Builder
	for _, each := range questions {
		name, answer := each.file, []byte(nil)
		var err error
		if name != "" {
			answer, err = os.ReadFile(name)
		} else {
			name = strings.Join(each.command, " ")
			within, cancel := context.WithTimeout(ctx, 20*time.Second)
			answer, err = exec.CommandContext(within, each.command[0], each.command[1:]...).CombinedOutput()
			cancel()
		}
		fmt.Fprintf(&text, "== %s\n%s", name, answer)
		if err != nil {
			fmt.Fprintf(&text, "(%v)\n", err)
		}
	}
	return os.WriteFile(filepath.Join(m.results, "gpu-machine.txt"), []byte(text.String()), 0o644)
}

// driverLine matches kernel messages about a GPU; Xid is NVIDIA's error number.
var driverLine = regexp.MustCompile(`NVRM|Xid|nvidia|[Oo]ut of memory|oom-kill|segfault`)

// kernelLog returns the kernel's recent messages about GPUs; nothing if its log cannot be read.
func kernelLog() string {
	const most = 40
	buffer := make([]byte, 256<<10)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, buffer)
	if err != nil {
		return fmt.Sprintf("(the kernel's log cannot be read: %v)", err)
	}
	lines := slices.DeleteFunc(
		strings.Split(string(buffer[:n]), "\n"),
		func(line string) bool { return !driverLine.MatchString(line) },
	)
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
