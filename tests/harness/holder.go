package harness

import (
	"encoding/json"
	"io"
	"testing"
)

// HeldMemory is what the program reports from its driver calls.
type HeldMemory struct {
	Free, Total uint64
	BusID       string `json:"bus_id"`
	PID         uint32 `json:"-"`
}

// HoldMemory starts a program that holds GPU memory until the end of the test.
func (d *Daemon) HoldMemory(t testing.TB, python, gpu, mebibytes string) (said HeldMemory) {
	t.Helper()
	program := d.Program(python, Workload("nvml", "hold.py"), gpu, mebibytes)
	program.Stdout = nil
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := program.Wait(); err != nil {
			t.Errorf("hold.py: %v", err)
		}
	})
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		_, _ = io.Copy(&program.Output, out)
		t.Fatalf("hold.py: %v\n%s", err, program.Output.String())
	}
	said.PID = uint32(program.Process.Pid)
	return said
}
