package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/internal/linux/account"
	"github.com/phos-gpu/phos/tests/harness"
)

// clientVariable makes this test's binary a client of the address that follows the network in it.
const clientVariable = "PHOS_LOCAL_CLIENT"

func TestMain(m *testing.M) {
	if target := os.Getenv(clientVariable); target != "" {
		var network, address string
		_, err := fmt.Sscan(target, &network, &address)
		if err == nil {
			err = client(network, address)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// client connects, and stays until the other side closes the connection.
func client(network, address string) error {
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}

// connect lets a user connect to a listener, and returns this side.
func connect(t *testing.T, listener net.Listener, uid uint32) net.Conn {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Env = []string{
		clientVariable + "=" + listener.Addr().Network() + " " + listener.Addr().String(),
		"GORACE=atexit_sleep_ms=0",
	}
	command.Stderr = os.Stderr
	if uid != uint32(os.Getuid()) {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); _ = command.Wait() })
	return conn
}

// listeners are the two kinds of sockets that may serve in clear.
func listeners(t *testing.T) []net.Listener {
	t.Helper()
	folder, err := os.MkdirTemp("/var/tmp", "phos-local-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "s")
	unix, err1 := net.Listen("unix", path)
	tcp, err2 := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err1, err2, os.Chmod(folder, 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(); _ = tcp.Close() })
	return []net.Listener{unix, tcp}
}

// TestUsers lets root, a user with an account, and one without connect over both kinds of sockets.
func TestUsers(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	const daemon, stranger = 1, 61241
	name := account.KnownName(daemon)
	if name == "" || account.KnownName(stranger) != "" {
		t.Skip("the accounts of this machine are other ones")
	}
	root := identity.Caller{Kind: identity.Local, Name: "root", Account: "root", Role: identity.RoleAdmin}
	for _, listener := range listeners(t) {
		for uid, test := range map[uint32]struct {
			want identity.Caller
			err  error
		}{
			0:                  {root, nil},
			daemon:             {identity.Caller{Kind: identity.Local, Name: name, Account: name, Role: identity.RoleUser}, nil},
			stranger:           {identity.Caller{}, ErrNoAccount},
			account.Overflow(): {identity.Caller{}, nil}, // the error is another one for each socket
		} {
			got, err := Rules{}.Of(connect(t, listener, uid))
			wrong := !errors.Is(err, test.err)
			if uid == account.Overflow() {
				wrong = err == nil
			}
			if wrong || got != test.want {
				t.Errorf("%s, user %d: %+v, %v, want %+v, %v", listener.Addr().Network(), uid, got, err, test.want, test.err)
			}
		}
	}
}

// TestSelf needs no privileges.
func TestSelf(t *testing.T) {
	name := account.KnownName(uint32(os.Getuid()))
	if name == "" {
		t.Skip("this user has no account")
	}
	for _, listener := range listeners(t) {
		got, err := Rules{AllowRoot: true}.Of(connect(t, listener, uint32(os.Getuid())))
		isRoot := os.Getuid() == 0
		if err != nil || got.Account != name || got.IsAdmin() != isRoot || got.AllowRoot != isRoot {
			t.Errorf("%s: %+v, %v, want %s", listener.Addr().Network(), got, err, name)
		}
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	if got, err := (Rules{}).Of(ours); !errors.Is(err, ErrNotLocal) {
		t.Errorf("another kind of connection: %+v, %v, want ErrNotLocal", got, err)
	}
}

func TestOfUser(t *testing.T) {
	for _, test := range []struct {
		rules Rules
		uid   uint32
		name  string
		want  string
		root  bool
		err   error
	}{
		{Rules{}, 0, "root", "local admin root", false, nil},
		{Rules{AllowRoot: true}, 0, "root", "local admin root", true, nil},
		{Rules{AllowRoot: true}, 0, "toor", "local admin toor", true, nil},
		{Rules{AllowRoot: true}, 1000, "alice", "local user alice", false, nil},
		{Rules{}, 1000, "root", "local user root", false, nil}, // by number, not by name
		{Rules{}, 1000, "", "", false, ErrNoAccount},
		{Rules{}, account.Overflow(), "nobody", "", false, ErrNoAccount},
		{Rules{}, 1000, "1000", "", false, identity.ErrBadName},
		{Rules{}, 1000, "a b", "", false, identity.ErrBadName},
	} {
		got, err := test.rules.ofUser(test.uid, test.name)
		if !errors.Is(err, test.err) || err == nil && (got.String() != test.want || got.AllowRoot != test.root) {
			t.Errorf("user %d %q: %+v, %v, want %s, %v", test.uid, test.name, got, err, test.want, test.err)
		}
	}
}

func TestCheckListener(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:0": true, "127.9.9.9:0": true, "[::1]:0": true, "0.0.0.0:0": false, "[::]:0": false, ":0": false,
	} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // a machine without version 6
			continue
		}
		if err := CheckListener(listener); (err == nil) != good || !good && !errors.Is(err, ErrNotLocal) {
			t.Errorf("%s: %v", address, err)
		}
		_ = listener.Close()
	}
	for _, listener := range listeners(t) {
		if err := CheckListener(listener); err != nil {
			t.Error(err)
		}
	}
}
