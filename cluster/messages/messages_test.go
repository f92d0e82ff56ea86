package messages

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/codestore"
	"github.com/phos-gpu/phos/cluster/launch"
)

// TestExits: every field arrives. A field that is new here must be converted, too.
func TestExits(t *testing.T) {
	exit := launch.Exit{Process: 1, Code: 2, Signal: 3, OutOfMemory: true, Error: "no such file", Stopped: true}
	value := reflect.ValueOf(exit)
	for i := range value.NumField() {
		if value.Field(i).IsZero() {
			t.Fatalf("the test does not fill %s", value.Type().Field(i).Name)
		}
	}
	got := ExitsOf(Exits([]launch.Exit{exit, {}}))
	if want := []launch.Exit{exit, {}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestReceiveCode: only what has the announced length and hash is taken.
func TestReceiveCode(t *testing.T) {
	whole := bytes.Repeat([]byte("phos"), 1000)
	sum := blake3.Sum256(whole)
	lost := errors.New("the connection is lost")
	for _, test := range []struct {
		name  string
		parts [][]byte
		bytes int
		end   error
		want  error
	}{
		{"whole", [][]byte{whole[:1], nil, whole[1:]}, len(whole), io.EOF, nil},
		{"too short", [][]byte{whole[1:]}, len(whole), io.EOF, api.ErrInvalid},
		{"too long", [][]byte{whole, {0}}, len(whole), io.EOF, api.ErrInvalid},
		{"other content", [][]byte{whole[1:], {0}}, len(whole), io.EOF, api.ErrInvalid},
		{"shorter than announced", [][]byte{whole}, len(whole) + 1, io.EOF, api.ErrInvalid},
		{"cut off", [][]byte{whole}, len(whole), lost, lost},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got bytes.Buffer
			err := codestore.Receive(&got, &api.CodeRef{Hash: sum[:], Bytes: uint64(test.bytes)}, func() (*api.CodePart, error) {
				if len(test.parts) == 0 {
					return nil, test.end
				}
				part := test.parts[0]
				test.parts = test.parts[1:]
				return &api.CodePart{Data: part}, nil
			})
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if err == nil && !bytes.Equal(got.Bytes(), whole) {
				t.Errorf("got %d other bytes", got.Len())
			}
		})
	}
}
