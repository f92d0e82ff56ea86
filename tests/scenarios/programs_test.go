package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// ordinary is the id of a user without an account on the test machine.
const ordinary = 61235

// as makes a command run as an ordinary user.
func as(command *exec.Cmd, uid uint32) *exec.Cmd {
	if uid != 0 {
		if command.SysProcAttr == nil {
			command.SysProcAttr = &syscall.SysProcAttr{}
		}
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{uid + 1}}
	}
	return command
}

// home returns a user's directory with the workloads in it, because the user may not have access to
// the source tree.
func home(t *testing.T, uid int) string {
	t.Helper()
	dir := open(t)
	for _, name := range []string{"asked.py", "gpu.py", "workers.py"} {
		text, err := os.ReadFile(harness.Workload("everyday", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// homeProgram returns a program that runs in such a directory.
func homeProgram(d *harness.Daemon, dir string, arguments ...string) *exec.Cmd {
	command := program(d)
	command.Args = append([]string{python, "-u"}, arguments...)
	command.Dir = dir
	command.Stderr = nil
	return command
}

// errorsToFile redirects a program's standard error to a file.
func errorsToFile(t *testing.T, command *exec.Cmd, uid int) *exec.Cmd {
	t.Helper()
	file, err := os.Create(filepath.Join(command.Dir, "errors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		file.Close()
		if text, _ := os.ReadFile(file.Name()); t.Failed() && len(text) > 0 {
			t.Logf("the program's errors:\n%s", text)
		}
	})
	if err := file.Chown(uid, uid); err != nil {
		t.Fatal(err)
	}
	command.Stderr = file
	return command
}

// TestGenerations repeatedly dumps and restores a program, as root and as a user.
func TestGenerations(t *testing.T) {
	for _, uid := range []uint32{0, ordinary} {
		for _, what := range []string{"files", "none files"} {
			t.Run(fmt.Sprint(uid, " ", what), func(t *testing.T) {
				d, dir := start(t), home(t, int(uid))
				writeData(t, dir, int(uid))
				a := stepperCommand(
					t,
					as(
						errorsToFile(t, homeProgram(d, dir, append([]string{"asked.py"}, strings.Fields(what)...)...), int(uid)),
						uid,
					),
				)
				total := 0
				for round := range 4 {
					a.step(5, total+5)
					total += 5
					images := filepath.Join(dir, "image")
					if round%2 == 0 {
						mustCheckpoint(t, d, a, uid, "--dump", images)
						a.pid = 0
						a.await()
					} else {
						mustCheckpoint(t, d, a, uid, "--pre-dump", images)
						// The restore must undo the changes that follow.
						a.step(3, total+3)
						a.kill()
					}
					flags := []string{}
					if round == 2 {
						flags = append(flags, "--new-pids")
					}
					a = restoreBy(t, d,
						as(d.Command(append([]string{"--restore", "--files=restore", "--dir", images}, flags...)...), uid))
				}
				a.step(10, total+10)
				a.finish(9)
				checkData(t, dir, total+10)
				d.Empty()
			})
		}
	}
}

func mustCheckpoint(t *testing.T, d *harness.Daemon, a *stepper, uid uint32, verb, images string) {
	t.Helper()
	if text, err := run(t, as(d.Command(verb, "--dir", images, "--pid", fmt.Sprint(a.pid)), uid)); err != nil {
		t.Fatalf("%s: %v\n%s", verb, err, text)
	}
}

const records = 100

func writeData(t *testing.T, dir string, uid int) {
	t.Helper()
	var data strings.Builder
	for i := range records {
		fmt.Fprintf(&data, "%07d\n", i)
	}
	for _, name := range []string{"data", "other"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
}

// checkData compares the files of asked.py with the expected content after some steps.
func checkData(t *testing.T, dir string, steps int) {
	t.Helper()
	want := map[string]string{}
	for i := range records {
		want["data"] += fmt.Sprintf("%07d\n", i)
		if i < steps && i%3 == 0 {
			want["other"] += fmt.Sprintf("%07d\n", -i)
		} else {
			want["other"] += fmt.Sprintf("%07d\n", i)
		}
		if i < steps {
			want["results"] += fmt.Sprintf("%d ", i*i)
			want["log"] += fmt.Sprintf("%d\n", i)
		}
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != text {
			t.Errorf("%s contains %q, %v, want %q", name, got, err, text)
		}
	}
}

// TestWorkers: processes that Python's multiprocessing starts, each with GPU work.
func TestWorkers(t *testing.T) {
	for _, method := range []string{"fork", "spawn", "forkserver"} {
		for _, uid := range []uint32{0, ordinary} {
			if uid != 0 && method != "spawn" {
				continue // the user makes no difference between the three start methods
			}
			t.Run(fmt.Sprint(method, " ", uid), func(t *testing.T) {
				d, dir := start(t), home(t, int(uid))
				a := stepperCommand(t, as(errorsToFile(t, homeProgram(d, dir, "workers.py", method), int(uid)), uid))
				images := filepath.Join(dir, "image")
				a.step(4, 4)
				mustCheckpoint(t, d, a, uid, "--pre-dump", images)
				a.step(2, 6)
				mustCheckpoint(t, d, a, uid, "--dump", images)
				a.pid = 0
				a.await()
				a = restoreBy(t, d, as(d.Command("--restore", "--dir", images), uid))
				a.step(2, 8)
				clone := restoreBy(
					t,
					d,
					as(d.Command("--restore", "--new-pids", "--generation", "1", "--dir", images), uid),
				)
				clone.step(3, 7)
				a.step(1, 9)
				a.finish(5)
				mustCheckpoint(t, d, clone, uid, "--pre-dump", images)
				clone.step(1, 8)
				clone.finish(6)
				d.Empty()
			})
		}
	}
}

// TestSystemd: a program that systemd started, with the journal as its output.
func TestSystemd(t *testing.T) {
	harness.Need(t, "systemd", missing("/run/systemd/system"))
	d, dir := start(t), home(t, 0)
	unit := fmt.Sprintf("phos-everyday-%d", os.Getpid())
	command := exec.Command("systemd-run", "--unit="+unit, "--collect", "--working-directory="+dir)
	for _, variable := range d.Environment() {
		if strings.HasPrefix(variable, "LD_") || strings.HasPrefix(variable, "PHOS_") {
			command.Args = append(command.Args, "--setenv="+variable)
		}
	}
	fifo := filepath.Join(dir, "in")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	command.Args = append(command.Args, "sh", "-c", "exec "+python+" -u asked.py files <>in")
	writeData(t, dir, 0)
	if text, err := run(t, command); err != nil {
		t.Fatal(err, text)
	}
	t.Cleanup(func() { _ = exec.Command("systemctl", "kill", "--signal=KILL", unit).Run() })
	input, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	var pid string
	d.Eventually("systemd knows the program", func() bool {
		text, _ := exec.Command("systemctl", "show", "--property=MainPID", "--value", unit).Output()
		pid = strings.TrimSpace(string(text))
		return pid != "0" && pid != "" && len(d.Status().GetPrograms()) == 1
	})
	fmt.Fprintln(input, 5)
	d.Eventually("five steps are done", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		return strings.Count(string(text), "\n") == 5
	})
	images := filepath.Join(dir, "image")
	mustCLI(t, d, "--dump", "--dir", images, "--pid", pid)
	a := restore(t, d, images)
	fmt.Fprintln(input, 5)
	fmt.Fprintln(input, "end 0")
	if got := a.await(); got != 0 {
		t.Errorf("exited with %d, want 0", got)
	}
	checkData(t, dir, 10)
	d.Empty()
}
