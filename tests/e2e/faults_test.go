package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/harness"
)

func faultProgram(t *testing.T) string {
	t.Helper()
	return harness.CompileC(t, true, harness.Workload("fault", "fault.c"))
}

// TestFaults runs programs that cause errors, which they must be told. A correct program beside
// each must not be affected.
func TestFaults(t *testing.T) {
	program := faultProgram(t)
	daemon := harness.Start(t)
	done := filepath.Join(t.TempDir(), "done")
	bystander := daemon.Program(program, "steady", done)
	bystander.StartUntil("working")
	for _, test := range []struct {
		fault string
		log   string // required in the daemon's log
	}{
		{"bounds", "store"},
		{"null", "store"},
		{"misaligned", "store"},
		{"trap", "trap_"},
		{"syntax", ""},
		{"instruction", ""},
		{"memory", ""},
		{"abrupt", ""},
	} {
		t.Run(test.fault, func(t *testing.T) {
			faulty := daemon.Program(program, test.fault).In(t)
			err := faulty.Run()
			t.Log(faulty.Output.String())
			if err != nil {
				t.Fatal(err)
			}
			if _, real := harness.Driver(); !real { // it names the kernel, but not the instruction
				daemon.LogContains(test.log)
			}
		})
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bystander.Wait(); err != nil {
		t.Fatalf("the correct program: %v: %s", err, bystander.Output.String())
	}
	daemon.Empty()
}

// TestAddressInLog checks that the log names kernel, instruction and address of a bad access.
func TestAddressInLog(t *testing.T) {
	harness.RealGPU(t, "the log names neither the instruction nor the address of the fault")
	program := faultProgram(t)
	daemon := harness.Start(t)
	stray := daemon.Program(program, "bounds")
	stray.OK()
	address := regexp.MustCompile(`stray (0x\w+)`).FindStringSubmatch(stray.Output.String())
	if address == nil {
		t.Fatal("the program's error does not name the address")
	}
	daemon.LogContains(address[1])
	daemon.LogContains("st.global")
}

func TestNoDaemon(t *testing.T) {
	program := faultProgram(t)
	daemon := harness.Start(t)
	lonely := daemon.Program(program, "absent")
	socket := filepath.Join(t.TempDir(), "nobody.sock")
	lonely.Env = append(lonely.Env, api.SocketVariable+"="+socket)
	lonely.OK()
	lines := strings.Split(strings.TrimSpace(lonely.Output.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], socket) || !strings.Contains(lines[0], "pos_cli --start") {
		t.Errorf("want one line with the socket and how to start phosd, got %q", lines)
	}
}

func TestPinnedMemoryLimit(t *testing.T) {
	program := faultProgram(t)
	daemon := harness.Start(t, "--sessions-tmpfs-size=96MiB")
	daemon.Program(program, "pinned").OK()
	daemon.Empty()
}

// TestWorkerKilled kills a worker while its program waits or polls, with and without phosd. The
// program must get an error and must not hang.
func TestWorkerKilled(t *testing.T) {
	program := faultProgram(t)
	for _, test := range []struct {
		how   string
		phosd bool
	}{{"hang", true}, {"poll", true}, {"poll", false}} {
		t.Run(fmt.Sprintf("%s, phosd %v", test.how, test.phosd), func(t *testing.T) {
			daemon := harness.Start(t)
			waiting := daemon.Program(program, test.how)
			waiting.StartUntil("waiting")
			programs := daemon.Status().GetPrograms()
			if len(programs) != 1 || programs[0].GetPid() != uint32(waiting.Process.Pid) {
				t.Fatalf("programs: %v", programs)
			}
			if !test.phosd {
				daemon.Kill()
			}
			if err := syscall.Kill(int(programs[0].GetWorkerPid()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := waiting.Wait(); err != nil {
				t.Fatalf("%v: %s", err, waiting.Output.String())
			}
			if !test.phosd {
				daemon.Launch()
			}
			daemon.Empty()
		})
	}
}

// TestProgramKilled kills a program while it waits. Its worker must exit, also with an endless
// kernel.
func TestProgramKilled(t *testing.T) {
	program := faultProgram(t)
	daemon := harness.Start(t)
	for range 3 {
		waiting := daemon.Program(program, "hang")
		waiting.StartUntil("waiting")
		if err := waiting.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = waiting.Wait()
	}
	daemon.Empty()
}

// TestDaemonRestarted kills phosd under a running program, which continues. The next phosd adopts
// its worker.
func TestDaemonRestarted(t *testing.T) {
	program := faultProgram(t)
	daemon := harness.Start(t)
	done := filepath.Join(t.TempDir(), "done")
	running := daemon.Program(program, "steady", done)
	running.StartUntil("working")
	before := daemon.Status().GetPrograms()
	daemon.Kill()
	daemon.Launch()
	after := daemon.Status().GetPrograms()
	if len(before) != 1 || len(after) != 1 || before[0].GetSession() != after[0].GetSession() ||
		before[0].GetWorkerPid() != after[0].GetWorkerPid() {
		t.Fatalf("before %v, after %v", before, after)
	}
	// New programs are served beside the adopted one.
	daemon.Program(program, "brief").OK()
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := running.Wait(); err != nil {
		t.Fatalf("%v: %s", err, running.Output.String())
	}
	daemon.Empty()
}

// TestHostile lets programs destroy their own sessions at random while another program works.
func TestHostile(t *testing.T) {
	program := faultProgram(t)
	daemon := harness.Start(t)
	done := filepath.Join(t.TempDir(), "done")
	bystander := daemon.Program(program, "steady", done)
	bystander.StartUntil("working")
	for seed := range 8 {
		attacker := daemon.Program(program, "hostile", fmt.Sprint(seed))
		attacker.StartUntil("attacking")
		// It exits normally, by an alarm, or by its own damage; each is fine.
		_ = attacker.Wait()
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bystander.Wait(); err != nil {
		t.Fatalf("the correct program: %v: %s", err, bystander.Output.String())
	}
	daemon.Empty()
}

// TestManyPrograms starts and ends many programs, some of them abruptly. Nothing may be left of
// them.
func TestManyPrograms(t *testing.T) {
	program := faultProgram(t)
	daemon := harness.Start(t)
	count := 1000
	if testing.Short() {
		count = 50
	}
	daemon.Program(program, "brief").OK()
	before := resources(t, daemon.PID())
	for i := range count {
		words := []string{"brief", "abrupt"}
		one := daemon.Program(program, words[i%2])
		if err := one.Run(); err != nil {
			t.Fatalf("program %d: %v: %s", i, err, one.Output.String())
		}
	}
	daemon.Empty()
	daemon.Eventually(
		"phosd has closed its descriptors",
		func() bool { return resources(t, daemon.PID()).files <= before.files+4 },
	)
	after := resources(t, daemon.PID())
	if after.residentBytes > before.residentBytes+64<<20 {
		t.Errorf("phosd grew from %d to %d bytes", before.residentBytes, after.residentBytes)
	}
}

// usage is the resources that a process uses.
type usage struct {
	files         int
	residentBytes int64
}

func resources(t *testing.T, pid int) usage {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(text), &total, &resident); err != nil {
		t.Fatal(err)
	}
	return usage{len(files), resident * int64(os.Getpagesize())}
}

// installForAll copies the build to where every user may read it. The source tree may be in root's
// home directory.
func installForAll(t *testing.T) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bin")
	if err := os.CopyFS(dir, os.DirFS(harness.Bin())); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Join(dir, "lib"); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PHOS_BIN", dir)
}

// TestUsers runs programs of two users at once; each user sees only their own, root sees both.
func TestUsers(t *testing.T) {
	installForAll(t)
	program := faultProgram(t)
	daemon := harness.Start(t)
	done := filepath.Join(t.TempDir(), "done")
	if err := os.Chmod(filepath.Dir(done), 0o755); err != nil {
		t.Fatal(err)
	}
	const one, two = 12345, 12346
	first, second := daemon.Program(
		program,
		"steady",
		done,
	).As(
		one,
		one,
	), daemon.Program(
		program,
		"steady",
		done,
	).As(
		two,
		two,
	)
	for _, each := range []*harness.Program{first, second} {
		each.Dir = "/"
		each.StartUntil("working")
	}
	if n := len(daemon.Status().GetPrograms()); n != 2 {
		t.Errorf("root sees %d programs, want both", n)
	}
	for _, p := range daemon.Status().GetPrograms() {
		var info syscall.Stat_t
		if err := syscall.Stat(fmt.Sprintf("/proc/%d", p.GetWorkerPid()), &info); err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.GetWorkerPid()))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d", p.GetUid()); !strings.Contains(string(status), want) {
			t.Errorf("the worker of user %d runs as another user", p.GetUid())
		}
		if !strings.Contains(string(status), "NoNewPrivs:\t1") {
			t.Error("a worker may gain privileges")
		}
	}
	list := daemon.Program(filepath.Join(harness.Bin(), "pos_cli"), "--status", "--json").As(one, one)
	list.Dir = "/"
	if err := list.Run(); err != nil {
		t.Fatalf("%v: %s", err, list.Output.String())
	}
	if text := list.Output.String(); !strings.Contains(text, fmt.Sprint(first.Process.Pid)) ||
		strings.Contains(text, fmt.Sprint(second.Process.Pid)) {
		t.Errorf("user one sees:\n%s", text)
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, each := range []*harness.Program{first, second} {
		if err := each.Wait(); err != nil {
			t.Errorf("%v: %s", err, each.Output.String())
		}
	}
	daemon.Empty()
}
