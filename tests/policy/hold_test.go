package policy

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/tests/harness"
)

// caller speaks to phosd as a program of this project would that is not pos_cli.
type caller struct {
	t      *testing.T
	daemon *harness.Daemon
	*api.Client
}

func call(t *testing.T, daemon *harness.Daemon) *caller {
	t.Helper()
	client, err := api.Dial(daemon.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &caller{t, daemon, client}
}

// hand gives files to phosd.
func (c *caller) hand(files ...*os.File) []byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	token, err := fdtoken.Send(ctx, c.daemon.Socket, files)
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// handDirectory gives a directory to phosd, and makes it first where it is missing.
func (c *caller) handDirectory(path string) []byte {
	c.t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		c.t.Fatal(err)
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer dir.Close()
	return c.hand(dir)
}

type (
	saves    = grpc.BidiStreamingClient[api.CheckpointCommand, api.CheckpointEvent]
	restores = grpc.BidiStreamingClient[api.RestoreCommand, api.RestoreEvent]
)

func (c *caller) save(ctx context.Context, begin *api.CheckpointBegin) saves {
	c.t.Helper()
	stream, err := c.Daemon.Checkpoint(ctx)
	if err == nil {
		err = stream.Send(&api.CheckpointCommand{Command: &api.CheckpointCommand_Begin{Begin: begin}})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return stream
}

func (c *caller) restore(ctx context.Context, begin *api.RestoreBegin) restores {
	c.t.Helper()
	stream, err := c.Daemon.Restore(ctx)
	if err == nil {
		err = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{Begin: begin}})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return stream
}

// event is anything that phosd says.
type event interface{ GetNotice() string }

// until receives until something comes that is wanted.
func until[E event](t *testing.T, receive func() (E, error), wanted func(E) bool) E {
	t.Helper()
	for {
		event, err := receive()
		if err != nil {
			t.Fatal(api.FromStatus(err))
		}
		if wanted(event) {
			return event
		}
	}
}

func isHeld(e *api.CheckpointEvent) bool     { return e.GetHeld() != nil }
func isDone(e *api.CheckpointEvent) bool     { return e.GetDone() != nil }
func isHeldRestore(e *api.RestoreEvent) bool { return e.GetHeld() != nil }
func isRunning(e *api.RestoreEvent) bool     { return e.GetRunning() != nil }
func isLoaded(e *api.RestoreEvent) bool      { return e.GetLoaded() != nil }
func saveCommit() *api.CheckpointCommand {
	return &api.CheckpointCommand{Command: &api.CheckpointCommand_Commit{Commit: &api.CheckpointCommit{}}}
}

func restoreCommit() *api.RestoreCommand {
	return &api.RestoreCommand{Command: &api.RestoreCommand_Commit{Commit: &api.RestoreCommit{}}}
}

func patience(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(context.Background(), 2*harness.Patience)
}

// pair is two programs of one cut.
func pair(t *testing.T, daemon *harness.Daemon) (jobs []*harness.Job, pids []uint32) {
	t.Helper()
	for range 2 {
		job := counting(t, daemon, "1500", "2000", "20000").Start()
		job.WaitLines(5)
		jobs, pids = append(jobs, job), append(pids, uint32(job.PID))
	}
	return jobs, pids
}

// stopped reports whether the programs make no step before the commit. It cannot fail because
// looking takes a while.
func stopped(jobs []*harness.Job) bool {
	before := []int{jobs[0].Lines(), jobs[1].Lines()}
	time.Sleep(200 * time.Millisecond)
	return jobs[0].Lines() == before[0] && jobs[1].Lines() == before[1]
}

// TestHeld: two programs are cut at one instant, wait for the word, and become one image, which
// brings both back.
func TestHeld(t *testing.T) {
	daemon := start(t, "--gpus=soft:1,deterministic")
	want := counting(t, daemon, "1500", "2000", "0").Start()
	if status := want.Finish(); status != counted {
		t.Fatalf("the program ends with %d: %s", status, want.Stderr())
	}
	jobs, pids := pair(t, daemon)
	c := call(t, daemon)
	ctx, cancel := patience(t)
	defer cancel()
	image := jobs[0].Image
	stream := c.save(ctx, &api.CheckpointBegin{Pids: pids, Group: "both", Files: c.handDirectory(image), Hold: true})
	until(t, stream.Recv, isHeld)
	if !stopped(jobs) {
		t.Error("a program goes on before the commit")
	}
	if left := generationsIn(t, jobs[0], image); len(left) != 0 {
		t.Errorf("the generations %v are there before the commit", left)
	}
	if err := stream.Send(saveCommit()); err != nil {
		t.Fatal(err)
	}
	if done := until(t, stream.Recv, isDone).GetDone(); done.GetProcesses() != 2 || done.GetGeneration() != 1 {
		t.Errorf("done: %v", done)
	}
	if text := jobs[0].Cli("image", "show", image, "--json"); !strings.Contains(text, `"both"`) {
		t.Errorf("the group is not in %s", text)
	}
	for _, job := range jobs {
		job.WaitLines(job.Lines() + 2)
		job.Kill()
	}
	begin := &api.RestoreBegin{Files: c.handDirectory(image), Hold: true, Detach: true}
	back := c.restore(ctx, begin)
	until(t, back.Recv, isHeldRestore)
	for _, job := range jobs {
		if job.Alive() {
			t.Errorf("pid %d is there before the commit", job.PID)
		}
	}
	if err := back.Send(restoreCommit()); err != nil {
		t.Fatal(err)
	}
	if running := until(t, back.Recv, isRunning).GetRunning(); running.GetProcesses() != 2 {
		t.Errorf("running: %v", running)
	}
	until(t, back.Recv, isLoaded)
	for _, job := range jobs {
		job.Finish()
		if differences := job.Result().Differs(want.Result()); differences != "" {
			t.Errorf("pid %d: %s", job.PID, differences)
		}
	}
	daemon.Empty()
}

// TestHoldBroken: a caller that goes away before it has committed changes nothing.
func TestHoldBroken(t *testing.T) {
	daemon := start(t)
	jobs, pids := pair(t, daemon)
	c := call(t, daemon)
	ctx, cancel := patience(t)
	defer cancel()
	image := jobs[0].Image
	for _, half := range []func(saves, context.CancelFunc){
		func(_ saves, leave context.CancelFunc) { leave() },
		func(stream saves, _ context.CancelFunc) {
			if err := stream.CloseSend(); err != nil { // says nothing more, and listens on
				t.Fatal(err)
			}
			if _, err := untilEnd(stream.Recv); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("without a commit it ends with %v", err)
			}
		},
	} {
		held, leave := context.WithCancel(ctx)
		stream := c.save(
			held,
			&api.CheckpointBegin{Pids: pids, Files: c.handDirectory(image), Hold: true, DeadlineMilliseconds: 3000},
		)
		until(t, stream.Recv, isHeld)
		half(stream, leave)
		for _, job := range jobs {
			job.WaitLines(job.Lines() + 3)
		}
		daemon.Eventually("the directory is as it was", func() bool {
			entries, err := os.ReadDir(image)
			return err == nil && len(entries) == 0
		})
		leave()
	}
	done := until(
		t,
		c.save(ctx, &api.CheckpointBegin{Pids: pids, Files: c.handDirectory(image), Stop: true}).Recv,
		isDone,
	).GetDone()
	if done.GetProcesses() != 2 {
		t.Errorf("done: %v", done)
	}
	for _, job := range jobs {
		job.WaitGone()
	}
	held, leave := context.WithCancel(ctx)
	back := c.restore(held, &api.RestoreBegin{Files: c.handDirectory(image), Hold: true})
	until(t, back.Recv, isHeldRestore)
	leave()
	daemon.Empty()
	back = c.restore(ctx, &api.RestoreBegin{Files: c.handDirectory(image), Detach: true})
	until(t, back.Recv, isRunning)
	for _, job := range jobs {
		job.WaitLines(job.Lines() + 3)
		job.Kill()
	}
	daemon.Empty()
}

// untilEnd receives until nothing more comes.
func untilEnd[E event](receive func() (E, error)) (last E, err error) {
	for {
		event, err := receive()
		if err != nil {
			return last, err
		}
		last = event
	}
}

func beginRestore(c *caller, image string, eager bool) *api.RestoreBegin {
	return &api.RestoreBegin{Files: c.handDirectory(image), Eager: eager, Detach: true}
}
