package checkpoints

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// TestPreparedForOnePlace: what a user has prepared in a container is not handed out to the same
// user in another one, or outside.
func TestPreparedForOnePlace(t *testing.T) {
	here, err := rootdir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	elsewhere, err := rootdir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	image, caller := &archive.Image{}, api.Caller{UID: 61260}
	var prepared preparedImages
	if !prepared.put(keyOf(image, caller, here, preflight.GPUs{}), "dir", &ckpt.Prepared{}, nil, time.Hour) {
		t.Fatal("not kept")
	}
	for name, root := range map[string]*rootdir.Root{"another container": elsewhere, "outside": nil} {
		if prepared.has(keyOf(image, caller, root, preflight.GPUs{})) {
			t.Errorf("handed out in %s", name)
		}
	}
	if !prepared.has(keyOf(image, caller, here, preflight.GPUs{})) {
		t.Error("not handed out in its own container")
	}
}
