package hostile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/tests/harness"
)

// intruderVariable makes this test binary an intruder: a client of phosd that sends requests that
// pos_cli would not send. Its value names the act.
const intruderVariable = "PHOS_HOSTILE_INTRUDER"

// acts are what an intruder does. It prints what it finds out.
var acts = map[string]func(arguments []string) error{
	"restore-with":     restoreWith,
	"connect-leave":    connectAndLeave,
	"use-connection":   useConnection,
	"outlive-caller":   outliveCaller,
	"ask-leave":        askAndLeave,
	"connect-wait":     connectAndWait,
	"connect-hello":    connectAndHello,
	"hello":            hello,
	"restore-leave":    restoreAndLeave,
	"restore-desert":   restoreAndDesert,
	"restore-deserted": restoreDeserted,
	"silent-restores":  silentRestores,
	"sticky-files":     stickyFiles,
	"leave-sticky":     leaveSticky,
	"large-headers":    largeHeaders,
	"many-pids":        manyPids,
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
	file, err := connect()
	if err != nil {
		return err
	}
	return leaveTo("use-connection", file)
}

// connectAndWait is connectAndLeave, and the child waits for a file GO.
func connectAndWait(arguments []string) error {
	file, err := connect()
	if err != nil {
		return err
	}
	return leaveTo("use-connection", file, arguments[0])
}

// connectAndHello is connectAndWait, and the child says hello, as a program does.
func connectAndHello(arguments []string) error {
	file, err := connect()
	if err != nil {
		return err
	}
	return leaveTo("hello", file, arguments[0])
}

// hello says hello on a connection of the parent PID that has ended, once the file GO exists.
func hello(arguments []string) error {
	await(func() bool { return strconv.Itoa(os.Getppid()) != arguments[0] })
	await(func() bool { return exists(arguments[1]) })
	conn, err := net.FileConn(os.NewFile(3, "connection"))
	if err != nil {
		return err
	}
	message, reply := wire.Hello{Version: wire.Version}, make([]byte, wire.WelcomeBytes)
	if _, err = conn.Write(message.Append(nil)); err == nil {
		_, err = io.ReadFull(conn, reply)
	}
	var welcome wire.Welcome
	if err == nil {
		_, err = welcome.Decode(reply)
	}
	if err == nil && welcome.Status == abi.Success {
		fmt.Println("welcome to session", welcome.Session)
		return nil
	}
	fmt.Println("refused:", err, welcome.Message)
	return nil
}

// restoreAndLeave hands off the image DIR, and leaves the restore to a child.
func restoreAndLeave(arguments []string) error {
	dir, err := os.Open(arguments[0])
	if err != nil {
		return err
	}
	file, err := connect()
	if err != nil {
		return err
	}
	token, err := fdtoken.Send(context.Background(), api.Socket(), []*os.File{dir})
	if err != nil {
		return err
	}
	return leaveTo("use-connection", file, "", hex.EncodeToString(token))
}

// connect returns a connection to phosd.
func connect() (*os.File, error) {
	conn, err := net.Dial("unix", api.Socket())
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn).File()
}

// leaveTo starts a child that acts on a connection once this process has ended.
func leaveTo(act string, connection *os.File, arguments ...string) error {
	child := exec.Command("/proc/self/exe", append([]string{strconv.Itoa(os.Getpid())}, arguments...)...)
	child.Env = append(os.Environ(), intruderVariable+"="+act)
	child.ExtraFiles, child.Stdout = []*os.File{connection}, os.Stdout
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // else this process's pid would stay in use
	return child.Start()
}

// useConnection asks for phosd's status on a connection of the parent PID that has ended, once the
// file GO exists, if it is named; or, with a TOKEN, for the restore of the image.
func useConnection(arguments []string) error {
	await(func() bool { return strconv.Itoa(os.Getppid()) != arguments[0] })
	if len(arguments) > 1 && arguments[1] != "" {
		await(func() bool { return exists(arguments[1]) })
	}
	conn, err := inheritedClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	client := api.NewDaemonClient(conn)
	if len(arguments) > 2 {
		token, err := hex.DecodeString(arguments[2])
		if err != nil {
			return err
		}
		return restoreOn(ctx, client, token)
	}
	_, err = client.Status(ctx, &api.StatusRequest{})
	fmt.Println("status:", err)
	return nil
}

// restoreOn asks for a restore and prints what comes of it.
func restoreOn(ctx context.Context, client api.DaemonClient, token []byte) error {
	stream, err := client.Restore(ctx)
	if err != nil {
		fmt.Println("restore: ", err)
		return nil
	}
	return followRestore(stream, &api.RestoreBegin{Files: token, Detach: true, NewPids: true})
}

// followRestore begins a restore and prints what comes of it.
func followRestore(stream api.Daemon_RestoreClient, begin *api.RestoreBegin) error {
	_ = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{Begin: begin}})
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if event == nil {
			fmt.Println("restore: ", err)
			return nil
		}
		if running := event.GetRunning(); running != nil {
			fmt.Println("running", running.GetPid())
		}
	}
}

// askAndLeave connects to phosd, leaves the connection to a child, and ends once the file LEAVE
// exists. The child asks before that, and again once the file GO exists.
func askAndLeave(arguments []string) error {
	file, err := connect()
	if err != nil {
		return err
	}
	given := []string{strconv.Itoa(os.Getpid()), arguments[1]}
	child := exec.Command("/proc/self/exe", given...)
	child.Env = append(os.Environ(), intruderVariable+"=outlive-caller")
	child.ExtraFiles, child.Stdout = []*os.File{file}, os.Stdout
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // else this process's pid would stay in use
	if err := child.Start(); err != nil {
		return err
	}
	await(func() bool { return exists(arguments[0]) })
	return nil
}

// outliveCaller asks on the connection of its parent PID, and again when that has ended and the
// file GO exists.
func outliveCaller(arguments []string) error {
	conn, err := inheritedClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	client := api.NewDaemonClient(conn)
	ended := func() bool { return strconv.Itoa(os.Getppid()) != arguments[0] }
	_, err = client.Status(ctx, &api.StatusRequest{})
	fmt.Println("first:", err)
	await(ended)
	await(func() bool { return exists(arguments[1]) })
	_, err = client.Status(ctx, &api.StatusRequest{})
	fmt.Println("second:", err)
	return nil
}

// inheritedClient returns a gRPC client on the connection that was inherited.
func inheritedClient() (*grpc.ClientConn, error) {
	inherited, err := net.FileConn(os.NewFile(3, "connection"))
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///phos",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return inherited, nil }))
}

// await waits until something holds.
func await(holds func() bool) {
	for !holds() {
		time.Sleep(time.Millisecond)
	}
}
