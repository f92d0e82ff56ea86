package policy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestPipe: a program moves from one phosd to another through a pipe between two pos_cli. Its
// results must not change.
func TestPipe(t *testing.T) {
	here, there := start(t, "--gpus=soft:1,deterministic"), start(t, "--gpus=soft:1,deterministic")
	want := countingJob(t, here, "600", "20000", "0").Start()
	if status := want.Finish(); status != countedStatus {
		t.Fatalf("program exited with %d: %s", status, want.Stderr())
	}
	job := countingJob(t, here, "600", "20000", "20000").Start()
	job.WaitLines(20)
	command := exec.Command(
		"sh",
		"-c",
		`"$1" --dump --dir - --pid "$2" | PHOS_SOCKET="$3" "$1" --restore --dir - --detach --trust-seal`,
		"sh",
		filepath.Join(harness.Bin(), "pos_cli"),
		itoa(job.PID),
		there.Socket,
	)
	command.Env = append(os.Environ(), api.SocketVariable+"="+here.Socket)
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	t.Logf("%s", said)
	if got := programOf(there, job); got.GetPid() == 0 || got.GetCheckpointDir() != "" ||
		got.GetLastCheckpointUnixMilliseconds() == 0 {
		t.Errorf("the other phosd reports %v", got)
	}
	job.Finish()
	if differences := job.Result().Differs(want.Result()); differences != "" {
		t.Error(differences)
	}
	for _, daemon := range []*harness.Daemon{here, there} {
		daemon.Empty()
		if left, err := filepath.Glob(daemon.State + "/work/*/*"); err != nil || len(left) > 0 {
			t.Errorf("left behind by the stream: %v, %v", left, err)
		}
	}
}

// TestStreamFile: an image is streamed into a file while the program continues. A file that is not
// complete must be rejected with the position.
func TestStreamFile(t *testing.T) {
	daemon := start(t)
	job := countingJob(t, daemon, "1500", "2000", "20000").Start()
	job.WaitLines(5)
	path := filepath.Join(t.TempDir(), "image")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := call(t, daemon)
	ctx, cancel := testContext(t)
	defer cancel()
	receiveUntil(
		t,
		c.checkpoint(
			ctx,
			&api.CheckpointBegin{Pids: []uint32{uint32(job.PID)}, Files: c.sendFiles(out), Stream: true},
		).Recv,
		isDone,
	)
	job.WaitLines(job.Lines() + 2)
	job.Kill()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for name, content := range map[string][]byte{
		"cut off": whole[:len(whole)/2], "empty": nil, "flipped": flipped, "text": []byte(strings.Repeat("no image ", 100)),
	} {
		if err := c.restoreStream(ctx, content); err == nil {
			t.Errorf("%s: restore succeeded, want failure", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
		daemon.Empty()
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	received, err := store.Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer received.Close()
	if _, err := store.ReadStream(ctx, bytes.NewReader(whole), received); err != nil {
		t.Error(err)
	}
	if err := c.restoreStream(ctx, whole); err != nil {
		t.Fatal(err)
	}
	job.WaitLines(job.Lines() + 2)
	if got := job.Finish(); got != -1 {
		t.Errorf("program exited with %d: %s", got, job.Stderr())
	}
	daemon.Empty()
}

// restoreStream restores from a stream.
func (c *caller) restoreStream(ctx context.Context, content []byte) error {
	c.t.Helper()
	stream, err := os.CreateTemp(c.t.TempDir(), "stream")
	if err != nil {
		c.t.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.Write(content); err != nil {
		c.t.Fatal(err)
	}
	if _, err := stream.Seek(0, io.SeekStart); err != nil {
		c.t.Fatal(err)
	}
	back := c.restore(ctx, &api.RestoreBegin{Files: c.sendFiles(stream), Stream: true, Detach: true})
	_, err = receiveAll(back.Recv)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return api.FromStatus(err)
}

// TestStreamStuck: a pos_cli that does not read or write its stream blocks phosd only until it
// exits.
func TestStreamStuck(t *testing.T) {
	daemon := start(t)
	job := countingJob(t, daemon, "3000", "200000", "20000").Start()
	job.WaitLines(5)
	c := call(t, daemon)
	for _, test := range []struct {
		name string
		stop bool
	}{{"runs on", false}, {"to be stopped", true}} {
		read, write, err := os.Pipe() // no process reads it
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := testContext(t)
		stream := c.checkpoint(
			ctx,
			&api.CheckpointBegin{
				Pids:   []uint32{uint32(job.PID)},
				Files:  c.sendFiles(write),
				Stream: true,
				Stop:   test.stop,
			},
		)
		const most = 64 << 10
		daemon.Eventually("the pipe is full", func() bool {
			waiting, err := unix.IoctlGetInt(int(read.Fd()), unix.TIOCINQ)
			return err == nil && waiting >= most
		})
		leave()
		if _, err := receiveAll(stream.Recv); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: exited with %v", test.name, err)
		}
		job.WaitLines(job.Lines() + 3)
		daemon.Eventually(
			"no checkpoint is running",
			func() bool { return !programOf(daemon, job).GetCheckpointRunning() },
		)
		_, _ = read.Close(), write.Close()
	}
	job.PreDump() // another checkpoint is possible
	job.Kill()
	read, write, err := os.Pipe() // no process writes to it
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	defer read.Close()
	ctx, leave := testContext(t)
	back := c.restore(ctx, &api.RestoreBegin{Files: c.sendFiles(read), Stream: true})
	leave()
	if _, err := receiveAll(back.Recv); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("exited with %v", err)
	}
	daemon.Empty()
}
