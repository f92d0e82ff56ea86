package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
)

// Every sentinel must reach the client unchanged, with the server's text.
func TestErrorsCrossTheWire(t *testing.T) {
	seen := map[string]error{}
	for _, row := range codeTable {
		sent := fmt.Errorf("pid 7: %w", row.Sentinel)
		got := FromStatus(ToStatus(sent))
		if !errors.Is(got, row.Sentinel) || got.Error() != sent.Error() {
			t.Errorf("%v became %v", sent, got)
		}
		if other := seen[row.Code.String()]; other != nil {
			t.Errorf("%v and %v are both %s", other, row.Sentinel, row.Code)
		}
		seen[row.Code.String()] = row.Sentinel
	}
	if got := FromStatus(ToStatus(errors.New("odd"))); got == nil || got.Error() != "odd" {
		t.Errorf("error without code: got %v, want odd", got)
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{filepath.Join(dir, "none.sock"), stale} {
		_, err := Dial(socket)
		if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), socket) ||
			!strings.Contains(err.Error(), "pos_cli --start") {
			t.Errorf("dial %s: %v", socket, err)
		}
	}
}

// echo answers Version with the caller's credentials, and panics in Status.
type echo struct {
	UnimplementedDaemonServer
}

func (echo) Version(ctx context.Context, _ *VersionRequest) (*VersionReply, error) {
	caller, err := CallerOf(ctx)
	return &VersionReply{Version: fmt.Sprint(caller.UID, " ", caller.Process.PID)}, err
}

func (echo) Status(context.Context, *StatusRequest) (*StatusReply, error) { panic("a fault") }

func TestCallerIsKnown(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "test.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(PeerCredentials{}), grpc.UnaryInterceptor(ServerErrors))
	RegisterDaemonServer(server, echo{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	client, err := Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	reply, err := client.Daemon.Version(t.Context(), &VersionRequest{})
	if want := fmt.Sprint(os.Getuid(), " ", os.Getpid()); err != nil || reply.GetVersion() != want {
		t.Errorf("caller %q (%v), want %q", reply.GetVersion(), err, want)
	}
	if _, err := client.Daemon.Status(t.Context(), &StatusRequest{}); err == nil ||
		!strings.Contains(err.Error(), "a fault") {
		t.Errorf("request that panics: got %v, want an error with \"a fault\"", err)
	}
	if _, err := client.Daemon.Stop(t.Context(), &StopRequest{}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("unimplemented request: got %v, want ErrNotBuilt", err)
	}
}

func TestRights(t *testing.T) {
	for _, test := range []struct {
		caller Caller
		uid    uint32
		may    bool
	}{
		{Caller{UID: 0}, 1000, true},
		{Caller{UID: 1000}, 1000, true},
		{Caller{UID: 1000}, 0, false},
		{Caller{UID: 1000}, 1001, false},
	} {
		if got := test.caller.CanAccess(test.uid); got != test.may {
			t.Errorf("%+v.May(%d) = %v", test.caller, test.uid, got)
		}
	}
	if err := (Caller{UID: 5}).RequireRoot("fly"); !errors.Is(err, ErrNotPermitted) ||
		!strings.Contains(err.Error(), "fly") {
		t.Errorf("RequireRoot: got %v, want ErrNotPermitted with the action", err)
	}
	if _, err := CallerOf(context.Background()); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("no peer: got %v, want ErrNotPermitted", err)
	}
}
