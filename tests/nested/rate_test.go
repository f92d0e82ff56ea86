package nested

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/digest"
)

// The variables for the file of figures, and for the number of mebibytes to measure.
const (
	figuresVariable = "PHOS_FIGURES"
	sizeVariable    = "PHOS_FIGURES_MIB"
)

// TestDigestRate compares the device's digests with the processor's, and measures them next to
// device copies. It has no target; it writes the figures to the file that a variable names.
func TestDigestRate(t *testing.T) {
	if !ownProcess(t, innerPhosd) {
		return
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	backend, device := openFirstGPU(t)
	defer func() { must(backend.Close()) }()
	memory, mebibytes := device.Memory(), uint64(16)
	if text := os.Getenv(sizeVariable); text != "" {
		_, err := fmt.Sscan(text, &mebibytes)
		must(err)
	}
	one := gpu.Range{
		Address: backend.Devices()[0].Window.Address,
		Bytes:   mebibytes << 20 / gpu.ChunkBytes * gpu.ChunkBytes,
	}
	other := gpu.Range{Address: one.End(), Bytes: one.Bytes}
	must(memory.Map(one))
	must(memory.Map(other))
	content := make([]byte, gpu.ChunkBytes)
	for i := range content {
		content[i] = byte(i>>11) ^ byte(i)*7
	}
	_, err := memory.WriteAt(content, int64(one.Address))
	must(err)

	stream, err := device.NewStream(gpu.StreamOptions{NonBlocking: true})
	must(err)
	copied := best(func() {
		must(
			stream.Submit(
				gpu.Copy{
					Dst:    gpu.Place{Address: other.Address},
					Src:    gpu.Place{Address: one.Address},
					Extent: [3]uint64{one.Bytes, 1, 1},
				},
			),
		)
		must(stream.Synchronize())
	})
	key, digests := digest.NewKey(), []gpu.Digest(nil)
	digested := best(func() {
		digests, err = memory.(gpu.Digester).Digests(key, []gpu.Range{other})
		must(err)
	})
	if want := digest.New(key).Of(content); digests[0] != want {
		t.Errorf("got digest %x from the device, want %x", digests[0], want)
	}
	if want := digest.New(key).Of(make([]byte, gpu.ChunkBytes)); digests[len(digests)-1] != want {
		t.Errorf("got digest %x of zeros from the device, want %x", digests[len(digests)-1], want)
	}
	must(stream.Close())
	must(memory.Unmap(one))
	must(memory.Unmap(other))
	read := func(tookSeconds float64) float64 { return float64(one.Bytes) / tookSeconds / 1e9 }
	figures(t, []map[string]any{
		{
			"name": "digests / a copy on the device, by what is read", "value": copied / digested, "least": 0.7,
			"note": fmt.Sprintf("%.1f of %.1f GB/s, over %d MiB", read(digested), read(copied), mebibytes),
		},
		{
			"name": "digests / a copy on the device, reads and writes", "value": copied / digested / 2,
			"note": fmt.Sprintf("of %.1f GB/s: what the device's memory does for a copy", 2*read(copied)),
		},
	})
}

// best returns the shortest of several times, in seconds, after a warm-up.
func best(do func()) (seconds float64) {
	do()
	for range 5 {
		start := time.Now()
		do()
		if took := time.Since(start).Seconds(); seconds == 0 || took < seconds {
			seconds = took
		}
	}
	return seconds
}

// figures writes the results to the file that the variable names.
func figures(t *testing.T, measured []map[string]any) {
	t.Helper()
	text, err := json.Marshal(measured)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	if path := os.Getenv(figuresVariable); path != "" {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
