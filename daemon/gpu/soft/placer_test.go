package soft

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// TestManagedVariable checks that a managed variable is placed by PlaceManaged and initialized
// there.
func TestManagedVariable(t *testing.T) {
	b := open(t, "soft:1", Options{})
	defer b.Close()
	c := newTestContext(t, b, 0)
	const address = uint64(0x6100_0000_0000)
	shown := make([]byte, 4096)
	if err := c.Memory().MapHost(address, shown); err != nil {
		t.Fatal(err)
	}
	image := gpu.Image{PTX: []string{".version 8.0\n.target sm_90\n.address_size 64\n" +
		".visible .global .attribute(.managed) .align 4 .u32 both = 5;\n"}}
	if _, err := c.LoadModule(image, gpu.LoadOptions{}); !errors.Is(err, abi.NotSupported) {
		t.Errorf("load without managed memory: got %v, want NOT_SUPPORTED", err)
	}
	m, err := c.LoadModule(image, gpu.LoadOptions{
		Place:        func(name string, _, _ uint64) (uint64, error) { t.Error("placed", name); return 0, abi.OutOfMemory },
		PlaceManaged: func(string, uint64) (uint64, error) { return address, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Globals()["both"]; got != (gpu.Range{Address: address, Bytes: 4}) {
		t.Errorf("address of managed variable: got %v", got)
	}
	if got := binary.LittleEndian.Uint32(shown); got != 5 {
		t.Errorf("managed variable: got %d, want 5", got)
	}
}
