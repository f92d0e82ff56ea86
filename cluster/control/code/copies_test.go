package code_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zeebo/blake3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/codestore"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/code"
	"github.com/phos-gpu/phos/cluster/control/serve"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/tests/harness"
)

// otherController is a controller that does not lead, with code of its own.
type otherController struct {
	*codestore.Store
	dir     string
	address string
	uploads atomic.Int32
	// hold is called before each upload. Its error is returned.
	hold   atomic.Pointer[func(context.Context) error]
	server *grpc.Server
}

// asController takes each caller for a controller.
type asController struct{}

// Of implements serve.Callers.
func (asController) Of(context.Context) (identity.Caller, error) {
	return identity.Caller{Kind: identity.Controller, Name: "leader"}, nil
}

func newController(t *testing.T) *otherController {
	t.Helper()
	dir := t.TempDir()
	o := &otherController{dir: filepath.Join(dir, "code"), address: filepath.Join(dir, "s")}
	kept, err := codestore.NewStore(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	o.Store = kept
	listener, err := net.Listen("unix", o.address)
	if err != nil {
		t.Fatal(err)
	}
	o.server = grpc.NewServer(grpc.StreamInterceptor(func(
		server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
	) error {
		if info.FullMethod == api.Launches_SendCode_FullMethodName {
			o.uploads.Add(1)
			if hold := o.hold.Load(); hold != nil {
				if err := (*hold)(stream.Context()); err != nil {
					return api.ToStatus(err)
				}
			}
		}
		return api.ToStatus(handle(server, stream))
	}))
	follower := control.NewController(nil, control.Settings{}, "here", slog.New(slog.DiscardHandler))
	serve.New(follower, serve.Parts{Callers: asController{}, Code: &code.Copies{Store: kept}}).Register(o.server, true)
	go func() { _ = o.server.Serve(listener) }() // it returns when the server is stopped
	t.Cleanup(o.server.Stop)
	return o
}

// leaderOf returns what a leader keeps beside other controllers.
func leaderOf(t *testing.T, others ...*otherController) *code.Copies {
	t.Helper()
	kept, err := codestore.NewStore(filepath.Join(t.TempDir(), "code"))
	if err != nil {
		t.Fatal(err)
	}
	return &code.Copies{
		Store: kept,
		Others: func(context.Context) (addresses []string, err error) {
			for _, o := range others {
				addresses = append(addresses, o.address)
			}
			return addresses, nil
		},
		Dial: func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		},
	}
}

// keep puts code into a store, and returns its name.
func keep(t *testing.T, in *codestore.Store) *api.CodeRef {
	t.Helper()
	packed := bytes.Repeat([]byte("a packed directory "), 40_000) // several messages
	sum := blake3.Sum256(packed)
	ref := &api.CodeRef{Hash: sum[:], Bytes: uint64(len(packed))}
	ended := false
	err := in.Receive(ref, func() (*api.CodePart, error) {
		if ended {
			return nil, io.EOF
		}
		ended = true
		return &api.CodePart{Data: packed}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestSpread: all controllers get code, each once.
func TestSpread(t *testing.T) {
	others := []*otherController{newController(t), newController(t)}
	leader := leaderOf(t, others...)
	ref := keep(t, leader.Store)
	keep(t, others[0].Store) // from when it led
	for range 2 {
		if err := leader.Spread(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "both controllers have the code", func() bool { return others[0].Has(ref) && others[1].Has(ref) })
	}
	if first, second := others[0].uploads.Load(), others[1].uploads.Load(); first != 0 || second != 1 {
		t.Errorf("%d uploads to the controller that had it, %d to the other one", first, second)
	}
}

// TestSpreadWithoutSome: most controllers are enough, and needed. The leader counts.
func TestSpreadWithoutSome(t *testing.T) {
	for _, test := range []struct {
		others, dead int
		want         error
	}{
		{0, 0, nil},
		{1, 0, nil},
		{1, 1, api.ErrUnavailable},
		{2, 1, nil},
		{2, 2, api.ErrUnavailable},
		{4, 2, nil},
		{4, 3, api.ErrUnavailable},
	} {
		var others []*otherController
		for i := range test.others {
			others = append(others, newController(t))
			if i < test.dead {
				others[i].server.Stop()
			}
		}
		leader := leaderOf(t, others...)
		ref := keep(t, leader.Store)
		err := leader.Spread(t.Context(), ref)
		if !errors.Is(err, test.want) {
			t.Errorf("%d of %d other controllers are dead: %v, want %v", test.dead, test.others, err, test.want)
		}
		for _, o := range others[:test.dead] {
			if err != nil && !strings.Contains(err.Error(), o.address) {
				t.Errorf("the error does not name %s: %v", o.address, err)
			}
		}
		have := 1
		for _, o := range others {
			if o.Has(ref) {
				have++
			}
		}
		if err == nil && 2*have <= test.others+1 {
			t.Errorf("only %d of %d controllers have the code", have, test.others+1)
		}
	}
}

// TestSpreadGoesOn: a controller that is slow holds up no request, and gets the code all the same.
// A request that ends before most controllers have it fails.
func TestSpreadGoesOn(t *testing.T) {
	fast, slow := newController(t), newController(t)
	open := make(chan struct{})
	wait := func(ctx context.Context) error {
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	slow.hold.Store(&wait)
	leader := leaderOf(t, fast, slow)
	ref := keep(t, leader.Store)
	ctx, cancel := context.WithCancel(t.Context())
	if err := leader.Spread(ctx, ref); err != nil || !fast.Has(ref) {
		t.Errorf("%v; the fast one has it: %v", err, fast.Has(ref))
	}
	cancel() // as when the request is answered
	if slow.Has(ref) {
		t.Error("the slow controller has the code too early for this test")
	}
	alone := leaderOf(t, slow)
	keep(t, alone.Store)
	if err := alone.Spread(ctx, ref); !errors.Is(err, context.Canceled) {
		t.Errorf("without a majority: %v", err)
	}
	close(open)
	harness.Eventually(t, "the slow controller has the code", func() bool { return slow.Has(ref) })
}

// TestFetch: code comes from a controller that has all of it, past those that lack it, that are
// dead, or whose disk has damaged it.
func TestFetch(t *testing.T) {
	lacks, dead, damaged, has := newController(t), newController(t), newController(t), newController(t)
	dead.server.Stop()
	ref := keep(t, damaged.Store)
	damage(t, damaged)
	keep(t, has.Store)
	leader := leaderOf(t, lacks, dead, damaged, has)
	for range 2 { // the second time it is there
		if err := leader.Fetch(t.Context(), ref); err != nil || !leader.Has(ref) {
			t.Fatalf("%v; it has the code: %v", err, leader.Has(ref))
		}
		has.server.Stop()
	}
}

// damage changes a byte of each file of code.
func damage(t *testing.T, o *otherController) {
	t.Helper()
	entries, err := os.ReadDir(o.dir)
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, entry := range entries {
		path := filepath.Join(o.dir, entry.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/2]++
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFetchOfNone: code is not found only if each controller says that it has none. A controller
// that cannot be asked is named, with the reason.
func TestFetchOfNone(t *testing.T) {
	lacks, dead, damaged := newController(t), newController(t), newController(t)
	dead.server.Stop()
	ref := keep(t, damaged.Store)
	damage(t, damaged)
	for _, test := range []struct {
		name   string
		others []*otherController
		want   error
	}{
		{"alone", nil, api.ErrNotFound},
		{"all lack it", []*otherController{lacks, damaged}, api.ErrNotFound},
		{"one is dead", []*otherController{lacks, dead, damaged}, api.ErrUnavailable},
		{"all are dead", []*otherController{dead}, api.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			leader := leaderOf(t, test.others...)
			err := leader.Fetch(t.Context(), ref)
			if !errors.Is(err, test.want) || leader.Has(ref) {
				t.Fatalf("got %v, want %v; it has the code: %v", err, test.want, leader.Has(ref))
			}
			unasked := errors.Is(test.want, api.ErrUnavailable)
			if unasked == errors.Is(err, api.ErrNotFound) || unasked != strings.Contains(err.Error(), dead.address) {
				t.Errorf("a controller could not be asked: %v; the error: %v", unasked, err)
			}
			if strings.Contains(err.Error(), lacks.address) {
				t.Errorf("the error names a controller that has answered: %v", err)
			}
		})
	}
}

// TestFetchRefused: a name that is none, and a store that does not answer, end the search before
// any controller is asked.
func TestFetchRefused(t *testing.T) {
	unknown := errors.New("the store does not answer")
	leader, ref := leaderOf(t), &api.CodeRef{Hash: bytes.Repeat([]byte{7}, 32), Bytes: 7}
	leader.Others = func(context.Context) ([]string, error) { return nil, unknown }
	if err := leader.Fetch(t.Context(), &api.CodeRef{Hash: ref.GetHash()[1:]}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("fetch of no name: %v", err)
	}
	if err := leader.Fetch(t.Context(), ref); !errors.Is(err, unknown) {
		t.Errorf("fetch without a store: %v", err)
	}
	if err := leader.Spread(t.Context(), ref); !errors.Is(err, unknown) {
		t.Errorf("spread without a store: %v", err)
	}
}

// TestFetchReplacesDamaged: a controller whose own copy is damaged gets a good one.
func TestFetchReplacesDamaged(t *testing.T) {
	here, has := newController(t), newController(t)
	ref := keep(t, here.Store)
	keep(t, has.Store)
	damage(t, here)
	leader := leaderOf(t, has)
	leader.Store = here.Store
	if err := leader.Fetch(t.Context(), ref); err != nil || !here.Has(ref) {
		t.Errorf("%v; it has the code: %v", err, here.Has(ref))
	}
}
