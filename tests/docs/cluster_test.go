package docs

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// clusterDemo is a run of the demo of a cluster.
type clusterDemo struct {
	*exec.Cmd
	lines     *bufio.Scanner // what it prints
	said      []string
	temporary string
	left      []string // by others, before it
}

// startClusterDemo starts the demo.
func startClusterDemo(t *testing.T) *clusterDemo {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "build", harness.Built())
	harness.Need(t, "hosts", hosts.Possible())
	demo := &clusterDemo{Cmd: harness.Command("scripts/demo-cluster.sh"), temporary: t.TempDir(), left: orphans(t)}
	demo.Env = append(os.Environ(), "PHOS_CACHE="+t.TempDir(), "TMPDIR="+demo.temporary, "GOFLAGS=-buildvcs=false")
	// A signal for its group is one as from a terminal.
	demo.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	demo.Stdout, demo.Stderr, demo.lines = end, end, bufio.NewScanner(out)
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-demo.Process.Pid, syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, out) // until all of its processes have ended
		_ = out.Close()
	})
	return demo
}

// read reads lines until one has the text, and reports whether there was one.
func (d *clusterDemo) read(text string) bool {
	for d.lines.Scan() {
		d.said = append(d.said, d.lines.Text())
		if strings.Contains(d.lines.Text(), text) {
			return true
		}
	}
	return false
}

// end waits until all of its processes have ended, and returns how it ended.
func (d *clusterDemo) end(t *testing.T) error {
	t.Helper()
	for d.lines.Scan() {
		d.said = append(d.said, d.lines.Text())
	}
	err := d.Wait()
	t.Log(strings.Join(d.said, "\n"))
	d.checkNothingLeft(t)
	return err
}

// checkNothingLeft looks where the demo makes files.
func (d *clusterDemo) checkNothingLeft(t *testing.T) {
	t.Helper()
	left, _ := filepath.Glob(d.temporary + "/*")
	own := regexp.MustCompile(`/run/phos-demo-\w+`).FindString(strings.Join(d.said, "\n"))
	if _, err := os.Stat(own); own == "" || !errors.Is(err, fs.ErrNotExist) {
		left = append(left, own)
	}
	left = append(left, slices.DeleteFunc(orphans(t), func(each string) bool { return slices.Contains(d.left, each) })...)
	if len(left) > 0 {
		t.Errorf("the demo has left %q", left)
	}
}

// TestCluster runs the demo of a cluster.
func TestCluster(t *testing.T) {
	demo := startClusterDemo(t)
	told := demo.read("the controller was replaced; the launch went on")
	if err := demo.end(t); err != nil || !told {
		t.Errorf("the demo ended by %v, and told its end: %v", err, told)
	}
}

// TestClusterInterrupted: after Ctrl-C in the middle of the demo, nothing is left.
func TestClusterInterrupted(t *testing.T) {
	demo := startClusterDemo(t)
	if !demo.read("loses its power") {
		t.Error("the demo ended early")
	}
	if err := syscall.Kill(-demo.Process.Pid, syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := demo.end(t); err == nil {
		t.Error("the demo did not fail")
	}
}

// orphans returns directories and cgroups of hosts whose process has ended.
func orphans(t *testing.T) (left []string) {
	t.Helper()
	for _, pattern := range []string{"/var/tmp/*", "/dev/shm/*", "/sys/fs/cgroup/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, each := range found {
			if owner, known := cgroup.OwnerOf("hosts", filepath.Base(each)); known && owner.Gone() {
				left = append(left, each)
			}
		}
	}
	return left
}
