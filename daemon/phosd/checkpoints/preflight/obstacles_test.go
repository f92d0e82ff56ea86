package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// cpu says what a CPU's Check says, and counts how often it is asked.
type cpu struct {
	ckpt.CPU
	err   error
	asked int
}

func (c *cpu) Check(context.Context) error {
	c.asked++
	return c.err
}

func device(major, minor int32, memoryBytes uint64) gpu.DeviceInfo {
	return gpu.DeviceInfo{MemoryBytes: memoryBytes, Attributes: map[abi.DeviceAttribute]int32{
		abi.AttrComputeCapabilityMajor: major, abi.AttrComputeCapabilityMinor: minor,
	}}
}

func machine() *Machine {
	return &Machine{Arch: "x86_64", GPUs: []gpu.DeviceInfo{device(8, 9, 1000)}, CPU: &cpu{}}
}

// free is a pid larger than any process can have.
const free = 1 << 23

// saved is an image that can be restored on machine.
func saved(t *testing.T) *image.Manifest {
	t.Helper()
	written := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(written, make([]byte, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	return &image.Manifest{
		Host: image.Host{Arch: "x86_64"}, Owner: image.Owner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())},
		Processes: []image.Process{{PID: free, GPU: &image.GPUHalf{
			Wire: wire.Version, Devices: []image.Device{{Name: "made", Capability: "8.9", MemoryBytes: 1000}},
		}}, {PID: free + 1}},
		Files: []image.SavedFile{{Path: written, Bytes: 100}},
	}
}

// ended is a process that has ended and is not buried before the test's end.
func ended(t *testing.T) int {
	t.Helper()
	command := exec.Command("true")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() })
	// It exits, and stays a zombie until it is reaped.
	if err := unix.Waitid(unix.P_PID, command.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid
}

// survived is the pid of a process that has ended, whose process group lives.
func survived(t *testing.T) int {
	t.Helper()
	command := exec.Command("sh", "-c", "sleep 1000 & exit 0")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	group := command.Process.Pid
	t.Cleanup(func() { _ = unix.Kill(-group, unix.SIGKILL) })
	return group
}

func TestObstacles(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*Machine, *image.Manifest)
		// says is in the only obstacle; empty: there is none.
		says    string
		newPids bool
	}{
		{name: "none", spoil: func(*Machine, *image.Manifest) {}},
		{name: "partial", spoil: func(_ *Machine, m *image.Manifest) {
			m.Kinds = []string{"cuda_event"}
		}, says: "only cuda_event"},
		{name: "no CPU half", spoil: func(h *Machine, _ *image.Manifest) { h.CPU = nil }, says: "built without checkpoints"},
		{name: "no CRIU", spoil: func(h *Machine, _ *image.Manifest) {
			h.CPU = &cpu{err: errors.New("it is too old")}
		}, says: "too old"},
		{name: "arch", spoil: func(_ *Machine, m *image.Manifest) {
			m.Host.Arch = "aarch64"
		}, says: "that of the program is aarch64"},
		{name: "wire", spoil: func(_ *Machine, m *image.Manifest) {
			m.Processes[0].GPU.Wire++
		}, says: "libphos.so speaks version"},
		{name: "fewer GPUs", spoil: func(h *Machine, _ *image.Manifest) {
			h.GPUs = nil
		}, says: "it saw 1 GPUs, and here are 0"},
		{name: "more GPUs", spoil: func(h *Machine, _ *image.Manifest) { h.GPUs = append(h.GPUs, device(7, 0, 1)) }},
		{name: "capability", spoil: func(h *Machine, _ *image.Manifest) {
			h.GPUs[0] = device(9, 0, 1000)
		}, says: "of compute capability 9.0, and pid 8388608 was started on made, of 8.9; this image does not say which code"},
		{name: "more memory", spoil: func(h *Machine, _ *image.Manifest) { h.GPUs[0] = device(8, 9, 1001) }},
		{name: "pid", spoil: func(_ *Machine, m *image.Manifest) { m.Processes[1].PID = os.Getpid() }, says: "it is taken: "},
		{name: "group of a pid", spoil: func(_ *Machine, m *image.Manifest) {
			m.Processes[1].PID = survived(t)
		}, says: "it is the process group of pid"},
		{name: "pid of another user", spoil: func(_ *Machine, m *image.Manifest) {
			m.Processes[1].PID, m.Owner.UID, m.Files = os.Getpid(), 54321, nil
		}, says: "it is taken: a process of another user"},
		{name: "new pids", spoil: func(_ *Machine, m *image.Manifest) { m.Processes[1].PID = os.Getpid() }, newPids: true},
		{name: "pid of its own", spoil: func(_ *Machine, m *image.Manifest) {
			m.Processes[1].PID, m.Processes[1].Inner = os.Getpid(), free+2
		}},
		{name: "zombie", spoil: func(_ *Machine, m *image.Manifest) {
			m.Processes[1].PID = ended(t)
		}, says: "zombie until its parent"},
		{name: "no file", spoil: func(_ *Machine, m *image.Manifest) {
			m.Files[0].Path += "-gone"
		}, says: "its content was not saved"},
		{name: "no file, saved", spoil: func(_ *Machine, m *image.Manifest) {
			m.Files[0].Path += "-gone"
			m.Files[0].Hash = "00"
		}},
		{name: "no directory", spoil: func(_ *Machine, m *image.Manifest) {
			m.Files[0].Path += "-gone/file"
			m.Files[0].Hash = "00"
		}, says: "-gone: "},
		{name: "short file", spoil: func(_ *Machine, m *image.Manifest) {
			m.Files[0].Bytes = 101
		}, says: "it is 100 bytes long, and was 101"},
		{name: "short file, saved", spoil: func(_ *Machine, m *image.Manifest) {
			m.Files[0].Bytes = 101
			m.Files[0].Hash = "00"
		}},
		{name: "long file", spoil: func(_ *Machine, m *image.Manifest) { m.Files[0].Bytes = 99 }},
		{name: "library", spoil: func(_ *Machine, m *image.Manifest) {
			m.Files[0].Path += "-gone"
			m.Files[0].Library = true
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			here, m := machine(), saved(t)
			test.spoil(here, m)
			var notices, want []string
			notice := func(text string) { notices = append(notices, text) }
			found := here.Obstacles(t.Context(), m, Restore{NewPids: test.newPids, Notice: notice})
			if test.name == "zombie" {
				want = []string{fmt.Sprintf("waiting for pid %d to be free", m.Processes[1].PID)}
			}
			if !slices.Equal(notices, want) {
				t.Errorf("got notices %q, want %q", notices, want)
			}
			switch {
			case test.says == "":
				if len(found) > 0 {
					t.Errorf("found %v", found)
				}
			case len(found) != 1:
				t.Errorf("found %v, want one with %q", found, test.says)
			default:
				if text := (&ckpt.ObstacleError{Obstacles: found}).Error(); !strings.Contains(text, test.says) ||
					found[0].Harmless {
					t.Errorf("found %q, want %q in it", text, test.says)
				}
			}
		})
	}
}

// TestRemedyOfTakenPID: the process that has a pid is to be ended, but not if it is phosd's own:
// the program of a worker would lose its GPU.
func TestRemedyOfTakenPID(t *testing.T) {
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	for pid, ends := range map[int]bool{os.Getpid(): false, sleeper.Process.Pid: true} {
		m := saved(t)
		m.Processes[1].PID = pid
		found := machine().Obstacles(t.Context(), m, Restore{})
		if len(found) != 1 || strings.Contains(found[0].Remedy, "end that process") != ends ||
			!strings.Contains(found[0].Remedy, "--new-pids") {
			t.Errorf("found %v, want one with --new-pids; to end the process: %v", found, ends)
		}
	}
}

// TestAllAtOnce: everything that stands against it is named, and not only the first thing.
func TestAllAtOnce(t *testing.T) {
	here, m := machine(), saved(t)
	m.Host.Arch, m.Kinds, m.Processes[1].PID = "riscv64", []string{"cuda_var"}, os.Getpid()
	here.CPU, here.GPUs[0] = nil, device(1, 0, 1)
	if found := here.Obstacles(t.Context(), m, Restore{}); len(found) != 6 {
		t.Errorf("found %d: %v", len(found), found)
	}
}

// TestAskedOnce: that CRIU works is remembered, that it does not is not.
func TestAskedOnce(t *testing.T) {
	here, m := machine(), saved(t)
	asked := &cpu{err: errors.New("not yet")}
	here.CPU = asked
	for range 2 {
		here.Obstacles(t.Context(), m, Restore{NewPids: true})
	}
	asked.err = nil
	for range 3 {
		here.Obstacles(t.Context(), m, Restore{NewPids: true})
	}
	if asked.asked != 3 {
		t.Errorf("CRIU was asked %d times, want 3", asked.asked)
	}
}

// TestRightsOfTheUser: what root may see and the program's user may not is not there.
func TestRightsOfTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: takes a user's rights")
	}
	here, m := machine(), saved(t)
	m.Owner = image.Owner{UID: 61236, GID: 61236}
	if err := os.Chmod(filepath.Dir(m.Files[0].Path), 0o700); err != nil {
		t.Fatal(err)
	}
	if found := here.Obstacles(t.Context(), m, Restore{NewPids: true}); len(found) != 1 ||
		!strings.Contains(found[0].Reason, "permission denied") {
		t.Errorf("found %v", found)
	}
}
