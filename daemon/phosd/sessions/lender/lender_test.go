package lender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/worker/borrower"
	"github.com/phos-gpu/phos/daemon/worker/mirror"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

const (
	pageBytes = 4096
	// user is a user id that no account of a test machine has.
	user = 61238
)

// fakeWorker is a worker that only borrows.
type fakeWorker struct {
	api.UnimplementedWorkerServer
	*borrower.Borrower
	store *fdtoken.Store
	stop  chan struct{}
}

func (w *fakeWorker) Lend(stream grpc.BidiStreamingServer[api.Loan, api.Want]) error {
	caller, err := api.CallerOf(stream.Context())
	if err != nil {
		return err
	}
	return w.Serve(stream, func(token []byte) ([]*os.File, error) { return w.store.Take(token, caller) }, w.stop)
}

// newWorker serves a fakeWorker and returns it with its session.
func newWorker(t *testing.T) (*fakeWorker, Session) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	b := &fakeWorker{
		Borrower: borrower.New(),
		store:    fdtoken.NewStore(fdtoken.Limits{Files: maxParts, Tokens: 4}),
		stop:     make(chan struct{}),
	}
	b.Patience = time.Minute
	path := filepath.Join(t.TempDir(), "control")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(api.PeerCredentials{}))
	api.RegisterWorkerServer(server, b)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	served, err := fdtoken.NewListener(listener, b.store, log)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(served) }()
	conn, err := api.DialWorker(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
	})
	me, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return b, Session{Worker: conn.Worker, Control: path, Program: me, Log: log}
}

// lend serves the worker until the test ends or stop is called.
func lend(t *testing.T, s Session) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, s) }()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(cancel)
	return stop
}

// shared maps a file of a user that has no name any longer and is not open.
func shared(t *testing.T, owner int, mode os.FileMode) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(8*pageBytes), file.Chown(owner, owner), file.Chmod(mode)); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 2*pageBytes, 4*pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err := errors.Join(err, file.Close(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	return memory
}

// TestLoan checks that the lent file is the mapped one, at the right offset, readable and
// writable.
func TestLoan(t *testing.T) {
	b, session := newWorker(t)
	lend(t, session)
	memory := shared(t, 0, 0o600)
	for range 3 {
		parts, err := b.Borrow(addressOf(memory)+pageBytes+5, 2*pageBytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(parts) != 1 || parts[0].Start != addressOf(memory)+pageBytes ||
			parts[0].End != parts[0].Start+3*pageBytes ||
			parts[0].Offset != 3*pageBytes {
			t.Fatalf("got %+v for memory at %#x", parts, addressOf(memory))
		}
		if _, err := parts[0].File.WriteAt([]byte("borrowed"), int64(parts[0].Offset)); err != nil {
			t.Error(err)
		}
		if got := string(memory[pageBytes : pageBytes+8]); got != "borrowed" {
			t.Errorf("memory after a write to the lent file: got %q", got)
		}
		clear(memory)
		if err := mirror.Close(parts); err != nil {
			t.Error(err)
		}
	}
}

// TestNotLent checks what is refused: private memory, too many files, and a process that is not the
// session's or acts as another user.
func TestNotLent(t *testing.T) {
	b, session := newWorker(t)
	memory := shared(t, 0, 0o600)
	private, err := unix.Mmap(-1, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(private) })
	gone, other := session, session
	gone.Program.StartTicks++
	other.UID, other.GID = user, user
	for _, test := range []struct {
		name           string
		session        Session
		address, bytes uint64
		want           string
	}{
		{"private memory", session, addressOf(private), pageBytes, "private"},
		{"no range", session, addressOf(memory), 0, "no range"},
		{"another process of that pid", gone, addressOf(memory), pageBytes, "is another process now"},
		{"a process that acts as another user", other, addressOf(memory), pageBytes, "no longer acts only as"},
		{"many files", session, many(t), 2 * (maxParts + 1) * pageBytes, "more than 64 files"},
	} {
		stop := lend(t, test.session)
		parts, err := b.Borrow(test.address, test.bytes)
		if !errors.Is(err, mirror.ErrUnreachable) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", test.name, parts, err, test.want)
		}
		stop()
	}
}

// many returns a range of more mappings than one loan may have.
func many(t *testing.T) uint64 {
	t.Helper()
	memory, err := unix.Mmap(
		-1,
		0,
		2*(maxParts+1)*pageBytes,
		unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS,
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	for i := range maxParts + 1 {
		if err := unix.Mprotect(memory[2*i*pageBytes:(2*i+1)*pageBytes],
			unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC); err != nil {
			t.Fatal(err)
		}
	}
	return addressOf(memory)
}

// role makes the test binary a process that maps its descriptor 3, prints the address, and waits
// for the end of its input.
const role = "PHOS_TEST_LENDING_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	memory, err := unix.Mmap(3, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = unix.Close(3)
	fmt.Println(addressOf(memory))
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// TestUsersFiles checks that only files are lent that the user could open, whatever the process has
// mapped.
func TestUsersFiles(t *testing.T) {
	_, session := newWorker(t)
	for _, test := range []struct {
		owner int
		mode  os.FileMode
		lent  bool
	}{{user, 0o600, true}, {0, 0o666, true}, {0, 0o600, false}, {user, 0o400, false}} {
		program, address := startMapping(t, test.owner, test.mode)
		session.UID, session.GID, session.Program = user, user, program
		parts, err := session.open(address, pageBytes)
		if (err == nil) != test.lent || !test.lent && !errors.Is(err, unix.EACCES) {
			t.Errorf("file of user %d with mode %o: got %v, want lent = %v", test.owner, test.mode, err, test.lent)
		}
		if err := mirror.Close(parts); err != nil {
			t.Error(err)
		}
	}
}

// startMapping starts a process of the user, with group extra, that maps a page of a file.
func startMapping(t *testing.T, owner int, mode os.FileMode) (program proc.Identity, address uint64) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := errors.Join(file.Truncate(pageBytes), file.Chown(owner, extra), file.Chmod(mode)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/proc/self/exe")
	command.Env, command.ExtraFiles = []string{role + "=1"}, []*os.File{file}
	command.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: user, Gid: user, Groups: []uint32{extra}},
	}
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err := errors.Join(err, command.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(input.Close(), command.Wait()); err != nil {
			t.Error(err)
		}
	})
	if _, err := fmt.Fscan(output, &address); err != nil {
		t.Fatal(err)
	}
	if program, err = proc.Of(command.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return program, address
}

// extra is a supplementary group of the process that startMapping starts.
const extra = 54399

// TestGroupsOfTheConnection: the groups that the process had when it connected count, and not those
// that it has now.
func TestGroupsOfTheConnection(t *testing.T) {
	_, session := newWorker(t)
	session.UID, session.GID = user, user
	for _, test := range []struct {
		groups []uint32
		lent   bool
	}{{[]uint32{}, false}, {[]uint32{extra}, true}, {nil, true}} {
		var address uint64
		session.Program, address = startMapping(t, 0, 0o660)
		session.Groups = test.groups
		parts, err := session.open(address, pageBytes)
		if (err == nil) != test.lent {
			t.Errorf("groups %v: got %v, want lent = %v", test.groups, err, test.lent)
		}
		if err := mirror.Close(parts); err != nil {
			t.Error(err)
		}
	}
}

// TestLenderRestarts checks a worker without phosd, a phosd that ends during a request, and the
// next phosd.
func TestLenderRestarts(t *testing.T) {
	b, session := newWorker(t)
	memory := shared(t, 0, 0o600)
	b.Patience = 10 * time.Millisecond
	if _, err := b.Borrow(addressOf(memory), pageBytes); !errors.Is(err, borrower.ErrNoLender) {
		t.Errorf("without phosd: got %v, want ErrNoLender", err)
	}
	b.Patience = time.Minute
	// This phosd receives the request and ends.
	ctx, cancel := context.WithCancel(t.Context())
	dying, err := session.Worker.Lend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = dying.Recv()
		cancel()
	}()
	done := make(chan error, 1)
	go func() {
		parts, err := b.Borrow(addressOf(memory), pageBytes)
		done <- errors.Join(err, mirror.Close(parts))
	}()
	<-ctx.Done()
	stop := lend(t, session)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if parts, err := b.Borrow(addressOf(memory), pageBytes); errors.Join(err, mirror.Close(parts)) != nil {
		t.Error(err)
	}
	stop()
	lend(t, session)
	if parts, err := b.Borrow(addressOf(memory), pageBytes); errors.Join(err, mirror.Close(parts)) != nil {
		t.Error(err)
	}
}
