package pipeline

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// process is a running Python program.
type process struct {
	*os.Process
	output       string // the file with what it prints
	begun, ended chan struct{}
	err          error // how it ended
}

// said returns what the process has printed.
func (p *process) said() string {
	text, _ := os.ReadFile(p.output)
	return string(text)
}

// run runs a Python program of testdata.
func run(t *testing.T, program string, arguments []string, environment ...string) *process {
	t.Helper()
	path := python(t)
	theServer.once.Do(func() { theServer.server, theServer.err = startServer(path, environ(os.TempDir())) })
	if theServer.err != nil {
		t.Fatal(theServer.err)
	}
	p := &process{output: filepath.Join(t.TempDir(), "output"), begun: make(chan struct{}), ended: make(chan struct{})}
	arguments = append([]string{filepath.Join(testdata, program)}, arguments...)
	if err := theServer.begin(p, arguments, append(environ(t.TempDir()), environment...)); err != nil {
		t.Fatal(err)
	}
	return p
}

// finish waits until a program has ended, and fails the test if it failed.
func (p *process) finish(t *testing.T) {
	t.Helper()
	<-p.ended
	if p.err != nil {
		t.Fatalf("%v\n%s", p.err, p.said())
	}
}

var testdata = harness.Path("tests/pipeline/testdata")

// environ is the environment of each program.
func environ(temporary string) []string { return append(os.Environ(), settings(temporary)...) }

// settings are the variables that each program needs.
func settings(temporary string) []string {
	return []string{
		"PYTHONPATH=" + harness.Path("python"), "PYTHONDONTWRITEBYTECODE=1", "PHOS_PLANNER=" + filepath.Join(harness.Bin(), "pos_cli"),
		"OMP_NUM_THREADS=1", "TMPDIR=" + temporary,
	}
}

// python returns a Python with PyTorch.
func python(t *testing.T) string {
	t.Helper()
	path, err := harness.Tool("TRAINING_PYTHON")
	harness.Need(t, "training", err)
	harness.Need(t, "build", harness.Built())
	return path
}

// exit is the status of a process that failed.
type exit struct{ syscall.WaitStatus }

func (e exit) Error() string {
	if e.Signaled() {
		return fmt.Sprintf("killed by %v", e.Signal())
	}
	return fmt.Sprintf("exit status %d", e.ExitStatus())
}

// server starts programs as forks of a Python process that has imported PyTorch, which takes a
// second of a CPU each time. It ends with the tests.
type server struct {
	input  io.Writer
	mu     sync.Mutex // one program begins at a time
	begins chan *process
}

var theServer struct {
	once sync.Once
	*server
	err error
}

func startServer(python string, environment []string) (*server, error) {
	c := exec.Command(python, filepath.Join(testdata, "server.py"))
	c.Env, c.Stderr = environment, os.Stderr
	input, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s := &server{input: input, begins: make(chan *process, 1)}
	go s.listen(output)
	return s, c.Start()
}

// begin starts a program: arguments are its path and what follows.
func (s *server) begin(p *process, arguments, environment []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := json.Marshal(map[string]any{"arguments": arguments, "environment": environment, "output": p.output})
	if err != nil {
		return err
	}
	s.begins <- p
	if _, err := s.input.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("server.py: %w", err)
	}
	<-p.begun
	return nil
}

// listen hears which programs have begun and ended.
func (s *server) listen(output io.Reader) {
	running := map[int]*process{}
	for news := json.NewDecoder(output); ; {
		var heard struct {
			Begun, Ended int // pids
			Status       syscall.WaitStatus
		}
		if err := news.Decode(&heard); err != nil {
			panic(fmt.Sprintf("server.py has ended: %v", err))
		}
		if heard.Begun != 0 {
			p := <-s.begins
			p.Process, p.err = os.FindProcess(heard.Begun)
			running[heard.Begun] = p
			close(p.begun)
			continue
		}
		p := running[heard.Ended]
		delete(running, heard.Ended)
		if heard.Status != 0 {
			p.err = exit{heard.Status}
		}
		close(p.ended)
	}
}
