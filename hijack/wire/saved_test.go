package wire

import (
	"encoding/binary"
	"path/filepath"
	"testing"
)

// FuzzSaved puts a few bytes over a session file that was saved: it is refused, or makes a file
// that is closed to calls, has the number that it was given, and can be saved again.
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
			t.Errorf("what was restored cannot be saved: %v", err)
		}
	})
}
