package wire

import (
	"encoding/binary"
	"path/filepath"
	"testing"
)

// FuzzSaved overwrites bytes of a saved session file. Restore refuses it, or the restored file has
// a closed gate and the given number, and can be saved again.
func FuzzSaved(f *testing.F) {
	f.Add(uint32(WordMagic), []byte{1})
	f.Add(uint32(WordHead), []byte{1, 0, 0, 0, 0, 0, 0, 0x80})
	f.Add(uint32(WordGate), []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(uint32(SessionBytes-1), []byte{7, 7})
	path := filepath.Join(f.TempDir(), "session")
	file, err := Create(path)
	if err != nil {
		f.Fatal(err)
	}
	good := file.Save()
	binary.LittleEndian.PutUint32(good[WordMagic:], Magic)
	binary.LittleEndian.PutUint32(good[WordVersion:], Version)
	f.Fuzz(func(t *testing.T, at uint32, over []byte) {
		saved := append([]byte(nil), good...)
		copy(saved[min(int(at), len(saved)):], over)
		if len(over) > 64 {
			saved = saved[:len(saved)-len(over)]
		}
		if err := file.Restore(saved, 42); err != nil {
			return
		}
		if file.Word64(WordSession).Load() != 42 || file.Word32(WordGate).Load() != GateClosed|GateRestored ||
			file.Word32(WordDead).Load() != 0 {
			t.Errorf("%d bytes at %d open a session file", len(over), at)
		}
		if err := CheckSaved(file.Save()); err != nil {
			t.Errorf("save the restored file: %v", err)
		}
	})
}
