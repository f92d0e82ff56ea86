package messages_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/api/apitest"
	"github.com/phos-gpu/phos/cluster/messages"
)

// noise returns code that takes several messages, and its name.
func noise(seed byte) ([]byte, *api.CodeRef) {
	packed := make([]byte, 600<<10)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(packed)
	sum := blake3.Sum256(packed)
	return packed, &api.CodeRef{Hash: sum[:], Bytes: uint64(len(packed))}
}

// receiver is a controller that keeps code, and what it is asked.
type receiver struct {
	*apitest.Controller
	client  *api.Client
	uploads int
	fail    func(upload int) error
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{Controller: apitest.New(t).Listen(t), fail: func(int) error { return nil }}
	r.Fail(func(method string) error {
		if method != api.Launches_SendCode_FullMethodName {
			return nil
		}
		r.uploads++
		return r.fail(r.uploads)
	})
	r.client = api.Connect(api.Endpoints{Addresses: []string{r.Socket}})
	t.Cleanup(r.client.Close)
	return r
}

// has reports whether the receiver keeps code. It takes only content that has its hash.
func (r *receiver) has(t *testing.T, ref *api.CodeRef) bool {
	t.Helper()
	found, err := r.client.Launches.FindCode(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return found.GetFound()
}

// TestSendCode: code is sent once, and what the receiver has is not sent.
func TestSendCode(t *testing.T) {
	r := newReceiver(t)
	packed, ref := noise(1)
	for i, want := range []bool{true, false} {
		sent, err := messages.SendCode(t.Context(), r.client.Launches, ref, bytes.NewReader(packed))
		if err != nil || sent != want {
			t.Errorf("time %d: sent %v, %v; want %v", i, sent, err, want)
		}
	}
	if r.uploads != 1 || !r.has(t, ref) {
		t.Errorf("%d uploads; the receiver has it: %v", r.uploads, r.has(t, ref))
	}
}

// TestSendCodeAgain: a leader that is lost on the way is asked for once more, other errors are not.
func TestSendCodeAgain(t *testing.T) {
	for _, test := range []struct {
		name    string
		fail    func(upload int) error
		want    error
		uploads int
	}{
		{"lost once", func(upload int) error {
			if upload == 1 {
				return api.ErrUnavailable
			}
			return nil
		}, nil, 2},
		{"lost for good", func(int) error { return api.ErrUnavailable }, api.ErrUnavailable, 2},
		{"refused", func(int) error { return api.ErrTooLarge }, api.ErrTooLarge, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReceiver(t)
			r.fail = test.fail
			packed, ref := noise(2)
			sent, err := messages.SendCode(t.Context(), r.client.Launches, ref, bytes.NewReader(packed))
			if !errors.Is(err, test.want) || sent != (test.want == nil) || r.uploads != test.uploads {
				t.Errorf("sent %v in %d uploads, %v", sent, r.uploads, err)
			}
			if r.has(t, ref) != sent {
				t.Errorf("the receiver has it: %v", r.has(t, ref))
			}
		})
	}
}

// brokenDisk fails after some bytes.
type brokenDisk struct {
	*bytes.Reader
	good int64
	err  error
}

func (b brokenDisk) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > b.good {
		return 0, b.err
	}
	return b.Reader.ReadAt(p, at)
}

// TestSendDamagedCode: what cannot be read in full, or is not what its name says, is kept nowhere.
func TestSendDamagedCode(t *testing.T) {
	lost := errors.New("input/output error")
	packed, ref := noise(3)
	for _, test := range []struct {
		name string
		from io.ReaderAt
		want error
	}{
		{"unreadable", brokenDisk{bytes.NewReader(packed), 300 << 10, lost}, lost},
		{"shorter", bytes.NewReader(packed[:len(packed)-1]), api.ErrInvalid},
		{"empty", bytes.NewReader(nil), api.ErrInvalid},
		{"other bytes", bytes.NewReader(append(bytes.Clone(packed[:len(packed)-1]), packed[len(packed)-1]+1)), api.ErrInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReceiver(t)
			if sent, err := messages.SendCode(t.Context(), r.client.Launches, ref, test.from); sent || !errors.Is(err, test.want) {
				t.Errorf("sent %v, %v; want %v", sent, err, test.want)
			}
			if r.has(t, ref) {
				t.Error("the receiver keeps it")
			}
		})
	}
}

// TestSendMore: of a file that has grown, the announced bytes are sent.
func TestSendMore(t *testing.T) {
	r := newReceiver(t)
	packed, ref := noise(4)
	sent, err := messages.SendCode(t.Context(), r.client.Launches, ref, bytes.NewReader(append(packed, "more"...)))
	if !sent || err != nil {
		t.Errorf("sent %v, %v", sent, err)
	}
}
