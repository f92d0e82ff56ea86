package ledger

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

// childVariable makes the test binary a worker that reserves; see TestProcesses.
const childVariable = "PHOS_LEDGER_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		if err := child(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func create(t *testing.T, capacities ...uint64) *Ledger {
	t.Helper()
	l, err := Create(filepath.Join(t.TempDir(), "ledger"), capacities)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestAccounting(t *testing.T) {
	l := create(t, 100, 1<<40)
	steps := []struct {
		gpu, slot int
		bytes     uint64
		fits      bool
	}{
		{0, 0, 60, true},
		{0, 1, 41, false},
		{0, 1, 40, true},
		{0, 0, 1, false},
		{0, 0, 0, true},
		{1, 0, 1 << 39, true},
		{1, Slots - 1, 1 << 39, true},
		{1, 3, 1, false},
		{1, 3, ^uint64(0), false},
	}
	for _, step := range steps {
		err := l.Reserve(step.gpu, step.slot, step.bytes)
		if (err == nil) != step.fits || err != nil && !errors.Is(err, abi.OutOfMemory) {
			t.Errorf("%+v: %v", step, err)
		}
	}
	l.Release(0, 0, 10)
	if used, capacity := l.Usage(0); used != 90 || capacity != 100 || l.SlotUsage(0, 0) != 50 {
		t.Errorf("after release: %d of %d, slot %d", used, capacity, l.SlotUsage(0, 0))
	}
	l.Clear(0)
	if used, _ := l.Usage(0); used != 40 {
		t.Errorf("after clear: %d", used)
	}
	if used, _ := l.Usage(1); used != 1<<39 {
		t.Errorf("other gpu after clear: %d", used)
	}
	for _, err := range []error{l.Reserve(2, 0, 1), l.Reserve(-1, 0, 1), l.Reserve(0, Slots, 1), l.Reserve(0, -1, 1)} {
		if !errors.Is(err, abi.InvalidValue) {
			t.Errorf("out of range: %v", err)
		}
	}
}

func TestOpenRefusesDamage(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": nil, "noise": make([]byte, 8192), "short": append([]byte("PHOSLGR\x00\x01\x00\x00\x00\x01"),
			make([]byte, 11)...),
	} {
		path := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); err == nil {
			t.Errorf("%s: opened", name)
		}
		_ = file.Close()
	}
}

// TestDeadClaim checks that the undecided claim of a dead worker counts as used until it is
// cleared, and that no reservation waits for it.
func TestDeadClaim(t *testing.T) {
	l := create(t, 100)
	l.claim(0, 7).Store(30)
	if err := l.Reserve(0, 0, 70); err != nil {
		t.Errorf("room beside the claim: %v", err)
	}
	l.Clear(7)
	if err := l.Reserve(0, 0, 30); err != nil {
		t.Errorf("after clearing: %v", err)
	}
}

func TestGoroutinesFillExactly(t *testing.T) {
	l := create(t, 1000)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for l.Reserve(0, 5, 1) == nil {
			}
		})
	}
	group.Wait()
	if used, _ := l.Usage(0); used != 1000 {
		t.Errorf("%d of 1000", used)
	}
}

// TestProcesses lets real processes compete for one GPU. Each reserves until it is refused a single
// byte, so the sum is exactly the capacity. Then one is killed and cleared, and another one gets
// exactly its share.
func TestProcesses(t *testing.T) {
	const processes, capacity = 4, 5000
	l := create(t, capacity)
	var workers []*worker
	for slot := range processes {
		workers = append(workers, startWorker(t, l, slot))
	}
	for _, w := range workers {
		w.say(t, "fill")
	}
	got := make([]int, processes)
	sum := 0
	for i, w := range workers {
		got[i] = w.hear(t)
		sum += got[i]
	}
	if used, _ := l.Usage(0); sum != capacity || used != capacity {
		t.Fatalf("processes got %v = %d, ledger has %d, capacity %d", got, sum, used, capacity)
	}
	if err := workers[0].command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = workers[0].command.Wait()
	if used, _ := l.Usage(0); used != capacity {
		t.Errorf("a dead worker's memory is free before it is cleared: %d", used)
	}
	l.Clear(0)
	workers[1].say(t, "fill")
	if more := workers[1].hear(t); more != got[0] {
		t.Errorf("got %d after the dead worker's %d", more, got[0])
	}
	workers[2].say(t, "release")
	if workers[2].hear(t); l.SlotUsage(0, 2) != 0 {
		t.Errorf("%d left after release", l.SlotUsage(0, 2))
	}
}

// TestKilledAnywhere kills workers while they reserve and release. Clearing their slots must free
// everything, and another worker must never see more than the capacity in use.
func TestKilledAnywhere(t *testing.T) {
	const capacity = 1000
	l := create(t, capacity)
	for range 10 {
		var churning []*worker
		for slot := 1; slot <= 2; slot++ {
			w := startWorker(t, l, slot)
			w.say(t, "churn")
			w.hear(t)
			churning = append(churning, w)
		}
		for range 2000 {
			if l.Reserve(0, 0, 300) == nil {
				l.Release(0, 0, 300)
			}
			if used, _ := l.Usage(0); used > capacity {
				t.Fatalf("%d of %d in use", used, capacity)
			}
		}
		for i, w := range churning {
			if err := w.command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = w.command.Wait()
			l.Clear(i + 1)
		}
		if err := l.Reserve(0, 0, capacity); err != nil {
			t.Fatalf("after clearing: %v", err)
		}
		l.Release(0, 0, capacity)
	}
}

type worker struct {
	command *exec.Cmd
	input   *os.File
	output  *bufio.Reader
}

func startWorker(t *testing.T, l *Ledger, slot int) *worker {
	t.Helper()
	childIn, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	output, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", childVariable, slot))
	command.Stdin, command.Stdout, command.Stderr = childIn, childOut, os.Stderr
	command.ExtraFiles = []*os.File{l.File()}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = childIn.Close(), childOut.Close()
	t.Cleanup(func() {
		_ = input.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = output.Close()
	})
	return &worker{command: command, input: input, output: bufio.NewReader(output)}
}

func (w *worker) say(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(w.input, line); err != nil {
		t.Fatal(err)
	}
}

func (w *worker) hear(t *testing.T) int {
	t.Helper()
	line, err := w.output.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// child obeys lines on its standard input: fill, release, churn (until killed).
func child(spec string) error {
	slot, err := strconv.Atoi(spec)
	if err != nil {
		return err
	}
	l, err := Open(os.NewFile(3, "ledger"))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		n := 0
		switch lines.Text() {
		case "fill":
			// Steps of two sizes; only a refusal of one byte means full.
			for _, step := range []uint64{7, 1} {
				for l.Reserve(0, slot, step) == nil {
					n += int(step)
				}
			}
		case "churn":
			fmt.Println(0)
			for step := uint64(1); ; step = step%400 + 7 {
				if l.Reserve(0, slot, step) == nil {
					l.Release(0, slot, step)
				}
			}
		case "release":
			l.Release(0, slot, l.SlotUsage(0, slot))
		}
		fmt.Println(n)
	}
	return lines.Err()
}
