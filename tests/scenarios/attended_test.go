package scenarios

import (
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestAttended: a pos_cli that waits for a restored program keeps its terminal, its pipes and its
// exit status when phosd is restarted.
func TestAttended(t *testing.T) {
	deaths := map[string]func(d *harness.Daemon){
		"killed": func(d *harness.Daemon) { d.Kill() },
		"ended": func(d *harness.Daemon) {
			if err := syscall.Kill(d.PID(), syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			d.Await()
		},
	}
	for name, die := range deaths {
		for _, uid := range []uint32{0, ordinary} {
			if uid != 0 && name == "killed" {
				continue // the user makes no difference to how phosd stops
			}
			t.Run(name, func(t *testing.T) {
				d, dir := start(t), home(t, int(uid))
				a := stepperCommand(t, as(errorsToFile(t, homeProgram(d, dir, "asked.py"), int(uid)), uid))
				a.step(3, 3)
				images := dir + "/image"
				mustCheckpoint(t, d, a, uid, "--dump", images)
				a.pid = 0
				a.await()
				restoreAgain := func() *stepper {
					return restoreBy(t, d, as(d.Command("--restore", "--dir", images), uid))
				}
				a = restoreAgain()
				for total := 5; total < 9; total += 2 {
					die(d)
					a.step(1, total-1)
					d.Launch()
					a.step(1, total)
				}
				a.finish(9)
				d.Empty()

				// A signal to pos_cli ends it while phosd is not running.
				a = restoreAgain()
				die(d)
				a.step(1, 4)
				if err := a.command.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				d.Eventually("the program ends", func() bool { return zombie(a.pid) })
				d.Launch()
				if got := a.await(); got != 128+int(syscall.SIGTERM) {
					t.Errorf("pos_cli exited with %d: %s", got, a.said)
				}
				a.pid = 0
				d.Empty()
			})
		}
	}
}

// TestNohup: a pos_cli that was started with a signal ignored keeps ignoring it, and does not
// forward it to the program.
func TestNohup(t *testing.T) {
	d, dir := start(t), home(t, 0)
	a := stepperCommand(t, errorsToFile(t, homeProgram(d, dir, "asked.py"), 0))
	a.step(3, 3)
	mustCheckpoint(t, d, a, 0, "--dump", dir+"/image")
	a.pid = 0
	a.await()
	command := d.Command("--restore", "--dir", dir+"/image")
	command.Args = append([]string{"sh", "-c", `trap '' HUP INT; exec "$@"`, "sh", command.Path}, command.Args[1:]...)
	command.Path = "/bin/sh"
	a = restoreBy(t, d, command)
	for _, ignored := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if err := a.command.Process.Signal(ignored); err != nil {
			t.Fatal(err)
		}
	}
	a.step(2, 5)
	a.finish(9)
	d.Empty()
}
