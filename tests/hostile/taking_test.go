package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/tests/harness"
)

// sticky returns a file of which the close blocks as long as its owner wants: a TCP socket with
// unsent data, and SO_LINGER.
func sticky() (*os.File, error) {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTCP("tcp4", nil, listener.Addr().(*net.TCPAddr))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil { // until the buffers are full
		_, err = conn.Write(make([]byte, 1<<16))
	}
	if err := conn.SetLinger(10000); err != nil {
		return nil, err
	}
	return conn.File()
}

// stickyFiles hands off more files than it may, of which the close blocks, and waits for its end.
func stickyFiles([]string) error {
	ctx := context.Background()
	for range 8 {
		file, err := sticky()
		if err != nil {
			return err
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := fdtoken.Send(ctx, api.Socket(), []*os.File{file})
			fmt.Println("handed off:", err)
		}()
		select { // phosd has the file, or is closing it
		case <-done:
		case <-time.After(time.Second):
		}
		go file.Close() // blocks if phosd has refused it
	}
	fmt.Println("done")
	select {}
}

// stick hands off files that cannot be closed, more than phosd keeps for a user.
func (u *user) stick(d *harness.Daemon) {
	u.t.Helper()
	attack := u.intruder(d, "sticky-files")
	said := &lines{}
	attack.Stdout = said
	background(u.t, attack)
	waitFor(u.t, "all files are handed off or refused", func() bool {
		all := said.all()
		return len(all) > 0 && all[len(all)-1] == "done\n"
	})
}

// TestBlockingFiles: bob hands off files that cannot be closed, more than phosd keeps for a user.
// Alice's files are accepted.
func TestBlockingFiles(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t)
	program := a.programIn(d, "program", "", onGPU+"ready()")
	b.stick(d)
	a.mustCLI(d, "--pre-dump", "--dir", a.file("image"), "--pid", pid(program))
}

// TestForeignDirectory: bob's policy names alice's image directory, which bob can only read.
// Alice's program is saved all the same.
func TestForeignDirectory(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t)
	images := a.file("images")
	if err := errors.Join(os.Mkdir(images, 0o755), os.Chown(images, int(a.uid), int(a.uid))); err != nil {
		t.Fatal(err)
	}
	policy := fmt.Sprintf("checkpoint:\n  dir: %s\n  every: 1s\n", images)
	squatter := b.programIn(d, "squatter", policy, onGPU+"ready()")
	waitFor(t, "bob's checkpoint fails", func() bool { return b.status(d, squatter).Checkpoint.Error != "" })
	victim := a.programIn(d, "victim", policy, onGPU+"ready()")
	waitFor(t, "alice's program is saved", func() bool {
		got := a.status(d, victim).Checkpoint
		if got.Error != "" {
			t.Fatalf("alice's checkpoint: %s", got.Error)
		}
		return got.Generation != nil
	})
}

// largeHeaders sends a request with headers of a mebibyte.
func largeHeaders([]string) error {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "large", strings.Repeat("x", 1<<20))
	_, err = client.Daemon.Version(ctx, &api.VersionRequest{})
	fmt.Println("large headers:", err)
	_, err = client.Daemon.Version(context.Background(), &api.VersionRequest{})
	fmt.Println("small headers:", err)
	return nil
}

// TestLargeHeaders: headers of requests stay in phosd's memory as long as the request lasts, so
// that large ones are refused.
func TestLargeHeaders(t *testing.T) {
	d := start(t)
	text, err := run(t, bob(t).intruder(d, "large-headers"))
	if err != nil || strings.Contains(text, "large headers: <nil>") || !strings.Contains(text, "small headers: <nil>") {
		t.Errorf("got %v, %q, want a refusal of the large headers only", err, text)
	}
}

// manyPids asks for a checkpoint of 30,000 programs.
func manyPids([]string) error {
	ctx := context.Background()
	socket := api.Socket()
	client, err := api.Dial(socket)
	if err != nil {
		return err
	}
	defer client.Close()
	dir, err := os.Open(".")
	if err != nil {
		return err
	}
	token, err := fdtoken.Send(ctx, socket, []*os.File{dir})
	if err != nil {
		return err
	}
	pids := make([]uint32, 2000)
	for i := range pids {
		pids[i] = uint32(os.Getpid())
	}
	stream, err := client.Daemon.Checkpoint(ctx)
	if err == nil {
		err = stream.Send(&api.CheckpointCommand{Command: &api.CheckpointCommand_Begin{
			Begin: &api.CheckpointBegin{Pids: pids, Files: token},
		}})
	}
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	fmt.Println("refused:", err)
	return nil
}

// TestManyPids: a request that names thousands of programs is refused before phosd looks for them.
func TestManyPids(t *testing.T) {
	d := start(t)
	text, err := run(t, bob(t).intruder(d, "many-pids"))
	if err != nil || !strings.Contains(text, "at most") {
		t.Errorf("got %v, %q, want a refusal that names the limit", err, text)
	}
}

// TestTraceTellsNothing: bob asks for traces of alice's processes. The answer is the same whether
// one uses a GPU or not.
func TestTraceTellsNothing(t *testing.T) {
	a, b := alice(t), bob(t)
	d := start(t)
	program := a.programIn(d, "program", "", onGPU+"ready()")
	other := background(t, a.as(exec.Command("sleep", "1000")))
	answer := func(pid string) string {
		text, err := run(t,
			b.cli(d, "--trace-resource", "--subaction", "start", "--dir", filepath.Join(b.home, "trace"), "--pid", pid))
		if err == nil {
			t.Errorf("pid %s: got no error", pid)
		}
		return strings.ReplaceAll(text, pid, "PID")
	}
	if with, without := answer(pid(program)), answer(pid(other)); with != without ||
		!strings.Contains(with, "another user") {
		t.Errorf("got %q for a program with a GPU, %q for one without", with, without)
	}
}
