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

// caller is a gRPC client of phosd other than pos_cli.
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

// sendFiles sends files to phosd and returns their token.
func (c *caller) sendFiles(files ...*os.File) []byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	token, err := fdtoken.Send(ctx, c.daemon.Socket, files)
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// sendDirectory sends a directory to phosd. It creates the directory if it is missing.
func (c *caller) sendDirectory(path string) []byte {
	c.t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		c.t.Fatal(err)
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer dir.Close()
	return c.sendFiles(dir)
}

type (
	checkpointStream    = grpc.BidiStreamingClient[api.CheckpointCommand, api.CheckpointEvent]
	restoreStreamClient = grpc.BidiStreamingClient[api.RestoreCommand, api.RestoreEvent]
)

func (c *caller) checkpoint(ctx context.Context, begin *api.CheckpointBegin) checkpointStream {
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

func (c *caller) restore(ctx context.Context, begin *api.RestoreBegin) restoreStreamClient {
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

// event is any event that phosd sends.
type event interface{ GetNotice() string }

// receiveUntil receives events until a wanted one arrives.
func receiveUntil[E event](t *testing.T, receive func() (E, error), wanted func(E) bool) E {
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
func checkpointCommit() *api.CheckpointCommand {
	return &api.CheckpointCommand{Command: &api.CheckpointCommand_Commit{Commit: &api.CheckpointCommit{}}}
}

func restoreCommit() *api.RestoreCommand {
	return &api.RestoreCommand{Command: &api.RestoreCommand_Commit{Commit: &api.RestoreCommit{}}}
}

func testContext(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(context.Background(), 2*harness.Patience)
}

// pair prepares two programs for one checkpoint.
func pair(t *testing.T, daemon *harness.Daemon) (jobs []*harness.Job, pids []uint32) {
	t.Helper()
	for range 2 {
		job := countingJob(t, daemon, "1500", "2000", "20000").Start()
		job.WaitLines(5)
		jobs, pids = append(jobs, job), append(pids, uint32(job.PID))
	}
	return jobs, pids
}

// stopped reports whether the programs make no step before the commit. A slow check cannot make it
// fail.
func stopped(jobs []*harness.Job) bool {
	before := []int{jobs[0].Lines(), jobs[1].Lines()}
	time.Sleep(200 * time.Millisecond)
	return jobs[0].Lines() == before[0] && jobs[1].Lines() == before[1]
}

// TestHoldCommit: two programs are stopped at one point in time and wait for the commit. They are
// saved in one image that restores both.
func TestHoldCommit(t *testing.T) {
	daemon := start(t, "--gpus=soft:1,deterministic")
	want := countingJob(t, daemon, "1500", "2000", "0").Start()
	if status := want.Finish(); status != countedStatus {
		t.Fatalf("program exited with %d: %s", status, want.Stderr())
	}
	jobs, pids := pair(t, daemon)
	c := call(t, daemon)
	ctx, cancel := testContext(t)
	defer cancel()
	image := jobs[0].Image
	stream := c.checkpoint(ctx, &api.CheckpointBegin{Pids: pids, Group: "both", Files: c.sendDirectory(image), Hold: true})
	receiveUntil(t, stream.Recv, isHeld)
	if !stopped(jobs) {
		t.Error("a program continued before the commit")
	}
	if left := generationsIn(t, jobs[0], image); len(left) != 0 {
		t.Errorf("generations %v exist before the commit", left)
	}
	if err := stream.Send(checkpointCommit()); err != nil {
		t.Fatal(err)
	}
	if done := receiveUntil(t, stream.Recv, isDone).GetDone(); done.GetProcesses() != 2 || done.GetGeneration() != 1 {
		t.Errorf("done: %v", done)
	}
	if text := jobs[0].Cli("image", "show", image, "--json"); !strings.Contains(text, `"both"`) {
		t.Errorf("the group is missing in %s", text)
	}
	for _, job := range jobs {
		job.WaitLines(job.Lines() + 2)
		job.Kill()
	}
	begin := &api.RestoreBegin{Files: c.sendDirectory(image), Hold: true, Detach: true}
	back := c.restore(ctx, begin)
	receiveUntil(t, back.Recv, isHeldRestore)
	for _, job := range jobs {
		if job.Alive() {
			t.Errorf("pid %d exists before the commit", job.PID)
		}
	}
	if err := back.Send(restoreCommit()); err != nil {
		t.Fatal(err)
	}
	if running := receiveUntil(t, back.Recv, isRunning).GetRunning(); running.GetProcesses() != 2 {
		t.Errorf("running: %v", running)
	}
	receiveUntil(t, back.Recv, isLoaded)
	for _, job := range jobs {
		job.Finish()
		if differences := job.Result().Differs(want.Result()); differences != "" {
			t.Errorf("pid %d: %s", job.PID, differences)
		}
	}
	daemon.Empty()
}

// TestHoldBroken: a caller that disconnects before the commit changes nothing.
func TestHoldBroken(t *testing.T) {
	daemon := start(t)
	jobs, pids := pair(t, daemon)
	c := call(t, daemon)
	ctx, cancel := testContext(t)
	defer cancel()
	image := jobs[0].Image
	for _, half := range []func(checkpointStream, context.CancelFunc){
		func(_ checkpointStream, leave context.CancelFunc) { leave() },
		func(stream checkpointStream, _ context.CancelFunc) {
			if err := stream.CloseSend(); err != nil { // sends no more, but still receives
				t.Fatal(err)
			}
			if _, err := receiveAll(stream.Recv); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("without a commit: got %v", err)
			}
		},
	} {
		held, leave := context.WithCancel(ctx)
		stream := c.checkpoint(
			held,
			&api.CheckpointBegin{Pids: pids, Files: c.sendDirectory(image), Hold: true, DeadlineMilliseconds: 3000},
		)
		receiveUntil(t, stream.Recv, isHeld)
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
	done := receiveUntil(
		t,
		c.checkpoint(ctx, &api.CheckpointBegin{Pids: pids, Files: c.sendDirectory(image), Stop: true}).Recv,
		isDone,
	).GetDone()
	if done.GetProcesses() != 2 {
		t.Errorf("done: %v", done)
	}
	for _, job := range jobs {
		job.WaitGone()
	}
	held, leave := context.WithCancel(ctx)
	back := c.restore(held, &api.RestoreBegin{Files: c.sendDirectory(image), Hold: true})
	receiveUntil(t, back.Recv, isHeldRestore)
	leave()
	daemon.Empty()
	back = c.restore(ctx, &api.RestoreBegin{Files: c.sendDirectory(image), Detach: true})
	receiveUntil(t, back.Recv, isRunning)
	for _, job := range jobs {
		job.WaitLines(job.Lines() + 3)
		job.Kill()
	}
	daemon.Empty()
}

// receiveAll receives events until the stream ends.
func receiveAll[E event](receive func() (E, error)) (last E, err error) {
	for {
		event, err := receive()
		if err != nil {
			return last, err
		}
		last = event
	}
}

func beginRestore(c *caller, image string, eager bool) *api.RestoreBegin {
	return &api.RestoreBegin{Files: c.sendDirectory(image), Eager: eager, Detach: true}
}
