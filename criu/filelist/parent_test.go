package filelist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	core "github.com/checkpoint-restore/go-criu/v7/crit/images/criu-core"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/criu/imagefile"
)

// coreImage returns the image of a process, by CRIU's own description of it.
func coreImage(t *testing.T, signal *uint32) []byte {
	t.Helper()
	entry := &core.CoreEntry{
		Mtype:      core.CoreEntry_X86_64.Enum(),
		ThreadCore: &core.ThreadCoreEntry{FutexRla: proto.Uint64(7), FutexRlaLen: proto.Uint32(24), PdeathSig: signal},
	}
	text, err := proto.MarshalOptions{AllowPartial: true}.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	image := binary.LittleEndian.AppendUint32(nil, imagefile.CommonMagic)
	image = binary.LittleEndian.AppendUint32(image, 0x55053847)
	image = binary.LittleEndian.AppendUint32(image, uint32(len(text)))
	return append(image, text...)
}

// TestForgetParent: a process's record loses its death signal and nothing else.
func TestForgetParent(t *testing.T) {
	images, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	path := images.Name() + "/core-12.img"
	want := coreImage(t, nil)
	for _, signal := range []*uint32{nil, proto.Uint32(9)} {
		if err := os.WriteFile(path, coreImage(t, signal), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ForgetParent(images, 12); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %x, want %x: %v", got, want, err)
		}
	}
	if err := ForgetParent(images, 13); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no such process: %v", err)
	}
	for cut := range want {
		if cut == imagefile.MagicBytes { // an image without records
			continue
		}
		if _, err := forgetParent(want[:cut]); !errors.Is(err, imagefile.ErrMalformed) {
			t.Errorf("%d bytes of it: %v", cut, err)
		}
	}
}
