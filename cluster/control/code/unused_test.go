package code

import (
	"encoding/hex"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/codestore"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
)

// TestSweepUnused: code of a launch stays as long as the store has the launch. With a launch that
// this version cannot read, all code stays.
func TestSweepUnused(t *testing.T) {
	kept, err := codestore.NewStore(filepath.Join(t.TempDir(), "code"))
	if err != nil {
		t.Fatal(err)
	}
	c, objects := &Copies{Store: kept}, servertest.Store(t)
	text := []byte("a packed directory")
	sum := blake3.Sum256(text)
	ref := &api.CodeRef{Hash: sum[:], Bytes: uint64(len(text))}
	parts := []*api.CodePart{{Data: text}}
	if err := kept.Receive(ref, func() (*api.CodePart, error) {
		if len(parts) == 0 {
			return nil, io.EOF
		}
		part := parts[0]
		parts = parts[1:]
		return part, nil
	}); err != nil {
		t.Fatal(err)
	}
	sweep := func() (int, error) { return c.sweep(t.Context(), objects, time.Now().Add(time.Hour)) }
	put := func(id string, value []byte) store.Revision {
		t.Helper()
		at, err := objects.Put(t.Context(), store.Write{Key: record.LaunchKey(id), Value: value})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	remove := func(id string, at store.Revision) {
		t.Helper()
		if err := objects.Delete(t.Context(), store.Write{Key: record.LaunchKey(id), Replaces: at}); err != nil {
			t.Fatal(err)
		}
	}
	spec, err := launch.ReadTOML([]byte("name = \"one\"\n[[jobs]]\nname = \"main\"\n[[jobs.processes]]\ncommand = [\"true\"]\n"))
	if err == nil {
		spec, err = spec.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	of := record.Launch{ID: "l-1", State: launch.New(spec), Code: record.Code{Hash: hex.EncodeToString(sum[:]), Bytes: uint64(len(text))}}
	first, newer := put("l-1", of.Encode()), put("l-2", []byte(`{"kind":"launch","version":1000}`))
	if removed, err := sweep(); err == nil || removed != 0 {
		t.Errorf("with a launch that cannot be read, %d files removed, %v", removed, err)
	}
	remove("l-2", newer)
	if removed, err := sweep(); err != nil || removed != 0 || !c.Has(ref) {
		t.Errorf("with the launch, %d files removed, %v", removed, err)
	}
	remove("l-1", first)
	if removed, err := sweep(); err != nil || removed != 1 || c.Has(ref) {
		t.Errorf("without the launch, %d files removed, %v", removed, err)
	}
}
