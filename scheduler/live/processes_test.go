package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// processes is an executor whose jobs are processes. It preempts with SIGSTOP, the cheapest
// checkpoint.
type processes struct {
	t       *testing.T
	script  string // run by each job; its number is $0
	events  chan scheduler.Event
	started chan *process
	waits   sync.WaitGroup

	mu    sync.Mutex
	jobs  map[cluster.JobID]*process
	holds map[cluster.GPU]cluster.JobID
}

type process struct {
	id            cluster.JobID
	cmd           *exec.Cmd
	say           io.WriteCloser // its standard input
	hear          *bufio.Scanner // its standard output
	run           int
	on            cluster.Placement
	ended, failed bool
}

func newProcesses(t *testing.T, script string) *processes {
	p := &processes{
		t: t, script: script, events: make(chan scheduler.Event), started: make(chan *process, 1000),
		jobs: map[cluster.JobID]*process{}, holds: map[cluster.GPU]cluster.JobID{},
	}
	t.Cleanup(p.end)
	return p
}

// end kills the remaining processes.
func (p *processes) end() {
	p.mu.Lock()
	for _, job := range p.jobs {
		if !job.ended {
			_ = job.cmd.Process.Kill()
		}
	}
	p.mu.Unlock()
	go func() {
		for range p.events {
		}
	}()
	p.waits.Wait()
	close(p.events)
}

func (p *processes) Events() <-chan scheduler.Event { return p.events }

func (p *processes) Apply(_ context.Context, plan scheduler.Plan) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stop := range plan.Stops {
		if err := p.stop(stop); err != nil {
			return err
		}
	}
	for _, start := range plan.Starts {
		if err := p.start(start); err != nil {
			return err
		}
	}
	return nil
}

func (p *processes) stop(stop scheduler.Stop) error {
	job := p.jobs[stop.Job]
	if job == nil {
		return nil
	}
	p.leave(job)
	if job.ended {
		return nil
	}
	if stop.How == scheduler.Checkpoint {
		return job.signal(syscall.SIGSTOP)
	}
	delete(p.jobs, stop.Job)
	return job.signal(syscall.SIGKILL)
}

// signal is for a process that may just have ended: its event is pending then.
func (p *process) signal(what syscall.Signal) error {
	if err := p.cmd.Process.Signal(what); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// leave takes a job's GPUs away.
func (p *processes) leave(job *process) {
	for _, gpu := range job.on {
		delete(p.holds, gpu)
	}
	job.on = nil
}

// start runs a job. A job that has finished just when the engine stopped and started it is not run
// again: the engine will receive its end soon.
func (p *processes) start(start scheduler.Start) error {
	job := p.jobs[start.Job]
	if job != nil && job.ended && !job.failed {
		return nil
	}
	for _, gpu := range start.On {
		if other, taken := p.holds[gpu]; taken {
			return fmt.Errorf("GPU %v is given to jobs %d and %d", gpu, other, start.Job)
		}
		p.holds[gpu] = start.Job
	}
	if job != nil && !job.ended {
		job.run, job.on = start.Run, start.On
		return job.signal(syscall.SIGCONT)
	}
	return p.spawn(start)
}

func (p *processes) spawn(start scheduler.Start) error {
	job := &process{
		id:  start.Job,
		cmd: exec.Command("/bin/sh", "-c", p.script, fmt.Sprint(start.Job)),
		run: start.Run,
		on:  start.On,
	}
	out, err := job.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if job.say, err = job.cmd.StdinPipe(); err != nil {
		return err
	}
	job.hear = bufio.NewScanner(out)
	if err := job.cmd.Start(); err != nil {
		return err
	}
	p.jobs[start.Job] = job
	p.waits.Add(1)
	go p.wait(job)
	p.started <- job
	return nil
}

// wait reports how a job ended.
func (p *processes) wait(job *process) {
	defer p.waits.Done()
	state, err := job.cmd.Process.Wait()
	if err != nil {
		p.t.Error(err)
		return
	}
	kind := scheduler.Finished
	if !state.Success() {
		kind = scheduler.Failed
	}
	p.mu.Lock()
	job.ended, job.failed = true, kind == scheduler.Failed
	known := p.jobs[job.id] == job
	p.leave(job)
	run := job.run
	p.mu.Unlock()
	if known {
		p.events <- scheduler.Event{Kind: kind, Job: job.id, Run: run}
	}
}
