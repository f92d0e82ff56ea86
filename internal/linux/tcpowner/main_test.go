package tcpowner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// clientVariable makes this test's binary a client of the address that it holds.
const clientVariable = "PHOS_TCPOWNER_CLIENT"

func TestMain(m *testing.M) {
	if address := os.Getenv(clientVariable); address != "" {
		if err := client(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// client connects to the address, from the port in PORT if that is set. Each SIGUSR1 resets the
// connection; it ends with its standard input.
func client(address string) error {
	reset := make(chan os.Signal, 1)
	signal.Notify(reset, syscall.SIGUSR1)
	conn, err := dialFrom(address, os.Getenv("PORT"))
	if err != nil {
		return err
	}
	go func() {
		<-reset
		_ = conn.SetLinger(0)
		_ = conn.Close()
		fmt.Println("reset")
	}()
	fmt.Println(conn.LocalAddr().(*net.TCPAddr).Port)
	_, err = os.Stdin.Read(make([]byte, 1))
	if err != nil && err.Error() == "EOF" {
		return nil
	}
	return err
}

// dialFrom connects from a port, or from any.
func dialFrom(address, port string) (*net.TCPConn, error) {
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		}), err)
	}}
	if port != "" {
		from, err := net.ResolveTCPAddr("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return nil, err
		}
		dialer.LocalAddr = from
	}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// startClient runs client as a user. Its process inherits nothing but its pipes.
func startClient(t *testing.T, uid uint32, address, port string) *user {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Env = []string{clientVariable + "=" + address, "PORT=" + port}
	command.Stderr = os.Stderr
	if uid != uint32(os.Getuid()) {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = command.Process.Kill(); _ = command.Wait() })
	c := &user{command: command, out: out}
	if _, err := fmt.Fscanln(out, &c.port); err != nil {
		t.Fatalf("user %d did not connect: %v", uid, err)
	}
	return c
}
