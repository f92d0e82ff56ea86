package contents

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
)

// FuzzZstd decodes arbitrary bytes as a compressed content: the result must not exceed the
// announced length.
func FuzzZstd(f *testing.F) {
	for _, content := range [][]byte{bytes.Repeat([]byte("ab"), 3000), make([]byte, image.ChunkBytes)} {
		buffer := make([]byte, 0, image.ChunkBytes)
		if stored, ok := compressed(buffer, content); ok {
			f.Add(bytes.Clone(stored[image.SumBytes:]), uint32(len(content)))
			f.Add(bytes.Clone(stored[image.SumBytes:]), uint32(100))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte, length uint32) {
		length = 1 + length%image.ChunkBytes
		memory := bytes.Repeat([]byte{0x5a}, int(length)+64)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = unpack(image.Hash{1}, append(make([]byte, image.SumBytes), frame...), memory[:length])
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(frame))*64+64<<20 {
			t.Errorf("%d bytes took %d to unpack", len(frame), took)
		}
		if !bytes.Equal(memory[length:], bytes.Repeat([]byte{0x5a}, 64)) {
			t.Error("written beyond the end")
		}
	})
}
