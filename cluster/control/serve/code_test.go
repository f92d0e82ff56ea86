package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/codestore"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/control/code"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/tests/harness"
)

// peers take each caller for a controller.
type peers struct{}

// Of implements Callers.
func (peers) Of(context.Context) (identity.Caller, error) { return callers["peer"], nil }

// otherController adds a controller that keeps code, and returns what it keeps.
func (w *world) otherController() *code.Copies {
	w.Helper()
	address := filepath.Join(w.TempDir(), "s")
	listener, err := net.Listen("unix", address)
	if err != nil {
		w.Fatal(err)
	}
	kept := w.newCopies()
	served := grpc.NewServer()
	follower := control.NewController(nil, control.Settings{}, address, slog.New(slog.DiscardHandler))
	New(follower, Parts{Callers: peers{}, Code: kept}).Register(served, true)
	go func() { _ = served.Serve(listener) }() // it returns when the server is stopped
	w.Cleanup(served.Stop)
	w.others = append(w.others, address)
	return kept
}

// somePacked returns code, and its name.
func somePacked() ([]byte, *api.CodeRef) {
	packed := bytes.Repeat([]byte("packed"), 100_000)
	sum := blake3.Sum256(packed)
	return packed, &api.CodeRef{Hash: sum[:], Bytes: uint64(len(packed))}
}

// TestCodeOfUser: a user's code is on most controllers before it counts as sent.
func TestCodeOfUser(t *testing.T) {
	w := newWorld(t)
	other := w.otherController()
	w.others = append(w.others, filepath.Join(t.TempDir(), "dead"))
	packed, ref := somePacked()
	if found, err := w.launches().FindCode(w.as("ada"), ref); err != nil || found.GetFound() {
		t.Errorf("before: %v, %v", found, err)
	}
	sent, err := messages.SendCode(w.as("ada"), w.launches(), ref, bytes.NewReader(packed))
	if err != nil || !sent || !w.code.Has(ref) || !other.Has(ref) {
		t.Errorf("sent %v, %v; here %v, there %v", sent, err, w.code.Has(ref), other.Has(ref))
	}
	if sent, err := messages.SendCode(w.as("bob"), w.launches(), ref, bytes.NewReader(packed)); err != nil || sent {
		t.Errorf("the second time: sent %v, %v", sent, err)
	}
}

// TestCodeOnTooFew: code that only this controller has, from an upload that has failed, is sent to
// the others before a user is told that the cluster has it.
func TestCodeOnTooFew(t *testing.T) {
	w := newWorld(t)
	packed, ref := somePacked()
	keep(t, w.code, packed, ref)
	w.others = []string{filepath.Join(t.TempDir(), "dead")}
	if found, err := w.launches().FindCode(w.as("ada"), ref); !errors.Is(api.FromStatus(err), api.ErrUnavailable) {
		t.Errorf("on one controller of two: %v, %v", found, err)
	}
	// Another controller is told what is here.
	if found, err := w.launches().FindCode(w.as("peer"), ref); err != nil || !found.GetFound() {
		t.Errorf("asked by a controller: %v, %v", found, err)
	}
	other := w.otherController()
	if found, err := w.launches().FindCode(w.as("ada"), ref); err != nil || !found.GetFound() {
		t.Errorf("with a majority: %v, %v", found, err)
	}
	harness.Eventually(t, "the other controller has the code", func() bool { return other.Has(ref) })
}

// TestCodeOfLaunchElsewhere: a launch's code is on another controller, because this one leads since
// it was sent.
func TestCodeOfLaunchElsewhere(t *testing.T) {
	w := newWorld(t)
	packed, ref := somePacked()
	create := func() error {
		_, err := w.launches().Create(w.as("ada"), &api.CreateRequest{Spec: someSpec(t), Code: ref})
		return api.FromStatus(err)
	}
	if err := create(); !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "was not sent") {
		t.Errorf("without the code: %v", err)
	}
	dead := filepath.Join(t.TempDir(), "dead")
	w.others = []string{dead}
	if err := create(); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("while the other controller does not answer: %v", err)
	}
	w.others = nil
	other := w.otherController()
	keep(t, other, packed, ref)
	if err := create(); err != nil || !w.code.Has(ref) {
		t.Errorf("with the code elsewhere: %v", err)
	}
}

// keep puts code on a controller.
func keep(t *testing.T, on *code.Copies, packed []byte, ref *api.CodeRef) {
	t.Helper()
	parts := [][]byte{packed}
	err := on.Receive(ref, func() (*api.CodePart, error) {
		if len(parts) == 0 {
			return nil, io.EOF
		}
		part := &api.CodePart{Data: parts[0]}
		parts = nil
		return part, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCodeAtFollower: a controller that does not lead keeps code for the leader only.
func TestCodeAtFollower(t *testing.T) {
	w := newFollower(t)
	packed, ref := somePacked()
	if _, err := w.launches().FindCode(w.as("ada"), ref); !errors.Is(api.FromStatus(err), api.ErrUnavailable) {
		t.Errorf("a user asks: %v", err)
	}
	if _, err := w.launches().FindCode(w.Context(), ref); !errors.Is(api.FromStatus(err), api.ErrUnknownCaller) {
		t.Errorf("an unknown caller asks: %v", err)
	}
	if sent, err := messages.SendCode(w.as("peer"), w.launches(), ref, bytes.NewReader(packed)); err != nil || !sent {
		t.Errorf("the leader sends: %v, %v", sent, err)
	}
	for caller, want := range map[string]error{"peer": nil, "n1": nil, "ada": api.ErrNotPermitted, "": api.ErrUnknownCaller} {
		stream, err := w.agents().GetCode(w.as(caller), ref)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := codestore.Receive(&got, ref, stream.Recv); !errors.Is(err, want) {
			t.Errorf("%q gets the code: %v, want %v", caller, err, want)
		} else if want == nil && !bytes.Equal(got.Bytes(), packed) {
			t.Errorf("%q gets other bytes", caller)
		}
	}
}

// TestNamelessCode: the first part names the code; it may have content, too.
func TestNamelessCode(t *testing.T) {
	w := newWorld(t)
	packed, ref := somePacked()
	for _, test := range []struct {
		parts []*api.CodePart
		want  error
	}{
		{nil, api.ErrInvalid},
		{[]*api.CodePart{{Data: packed}}, api.ErrInvalid},
		{[]*api.CodePart{{Ref: ref}}, api.ErrInvalid},
		{[]*api.CodePart{{Ref: ref, Data: packed[:9]}, {Data: packed[9:]}}, nil},
	} {
		stream, err := w.launches().SendCode(w.as("ada"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range test.parts {
			if err := stream.Send(part); err != nil {
				break // the answer says why
			}
		}
		if _, err := stream.CloseAndRecv(); !errors.Is(api.FromStatus(err), test.want) {
			t.Errorf("%d parts: %v, want %v", len(test.parts), err, test.want)
		}
		if w.code.Has(ref) != (test.want == nil) {
			t.Errorf("%d parts: kept %v", len(test.parts), w.code.Has(ref))
		}
	}
}
