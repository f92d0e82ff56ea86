package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// storm is a program whose tree forks and executes all the time.
const storm = `
import os, subprocess, sys, threading
def work():
    while True: subprocess.run(["/bin/sh", "-c", "true; /bin/true"])
for _ in range(3): threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
`

// TestForkStorm saves a tree that forks and executes all the time. A child between two states is no
// obstacle.
func TestForkStorm(t *testing.T) {
	for _, uid := range []uint32{0, ordinary} {
		t.Run(fmt.Sprint("user ", uid), func(t *testing.T) {
			d, dir := start(t), home(t, int(uid))
			command := exec.Command(python, "-u", "-c", storm)
			command.Env, command.Dir = d.Environment(), dir
			a := stepperCommand(t, as(errorsToFile(t, command, int(uid)), uid))
			for range 9 {
				mustCheckpoint(t, d, a, uid, "--pre-dump", filepath.Join(dir, "image"))
			}
			_ = os.RemoveAll(filepath.Join(dir, "image"))
		})
	}
}
