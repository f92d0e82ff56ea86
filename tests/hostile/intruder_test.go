package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/tests/harness"
)

// intruderVariable makes this test binary an intruder: a client of phosd that sends requests that
// pos_cli would not send. Its value names the act.
const intruderVariable = "PHOS_HOSTILE_INTRUDER"

// acts are what an intruder does. It prints what it finds out.
var acts = map[string]func(arguments []string) error{
	"restore-with":    restoreWith,
	"connect-leave":   connectAndLeave,
	"use-connection":  useConnection,
	"silent-restores": silentRestores,
	"sticky-files":    stickyFiles,
	"large-headers":   largeHeaders,
	"many-pids":       manyPids,
}

func TestMain(m *testing.M) {
	act := os.Getenv(intruderVariable)
	if act == "" {
		os.Exit(m.Run())
	}
	if err := acts[act](os.Args[1:]); err != nil {
		fmt.Println("intruder:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// intruder returns a command of the user that performs an act.
func (u *user) intruder(d *harness.Daemon, act string, arguments ...string) *exec.Cmd {
	u.t.Helper()
	path := u.file("intruder")
	if !exists(path) {
		self, err := os.ReadFile("/proc/self/exe")
		if err == nil {
			err = os.WriteFile(path, self, 0o755)
		}
		if err == nil {
			err = os.Chmod(path, 0o755)
		}
		if err != nil {
			u.t.Fatal(err)
		}
	}
	command := exec.Command(path, arguments...)
	command.Env = append(d.Environment(), intruderVariable+"="+act)
	return u.as(command)
}

// restoreWith restores the image DIR and gives the file FILE for each of its ends ID...
func restoreWith(arguments []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	dir, err := os.Open(arguments[0])
	if err != nil {
		return err
	}
	files, ids := []*os.File{dir}, []uint32{}
	for _, text := range arguments[2:] {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return err
		}
		given, err := os.OpenFile(arguments[1], os.O_RDWR, 0)
		if err != nil {
			return err
		}
		files, ids = append(files, given), append(ids, uint32(id))
	}
	token, err := fdtoken.Send(ctx, api.Socket(), files)
	if err != nil {
		return err
	}
	stream, err := client.Daemon.Restore(ctx)
	if err != nil {
		return err
	}
	begin := &api.RestoreBegin{Files: token, Endpoints: ids, Detach: true, NewPids: true}
	_ = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{Begin: begin}})
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if running := event.GetRunning(); running != nil {
			fmt.Println("running", running.GetPid())
		}
	}
}

// connectAndLeave connects to phosd, leaves the connection to a child, and ends.
func connectAndLeave([]string) error {
	conn, err := net.Dial("unix", api.Socket())
	if err != nil {
		return err
	}
	file, err := conn.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	child := exec.Command("/proc/self/exe", strconv.Itoa(os.Getpid()))
	child.Env = append(os.Environ(), intruderVariable+"=use-connection")
	child.ExtraFiles, child.Stdout = []*os.File{file}, os.Stdout
	return child.Start()
}

// useConnection asks for phosd's status on a connection of a process PID that has ended.
func useConnection(arguments []string) error {
	for {
		if _, err := os.Stat("/proc/" + arguments[0]); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	inherited, err := net.FileConn(os.NewFile(3, "connection"))
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("passthrough:///phos",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return inherited, nil }))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	_, err = api.NewDaemonClient(conn).Status(ctx, &api.StatusRequest{})
	fmt.Println("status:", err)
	return nil
}
