package saved

import (
	"bytes"
	"os"
	"runtime"
	"testing"
)

// FuzzDecode checks that accepted input is encoded again unchanged, and that decoding takes memory
// in proportion to the input.
func FuzzDecode(f *testing.F) {
	old, err := os.ReadFile("../testdata/version1.session")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(old)
	f.Add(old[:len(old)/2])
	f.Add([]byte(magic + "\x01\xff\xff\xff\xff\x0f"))
	empty, err := Encode(&Session{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(empty)
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := Decode(data)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(data))*256+1<<20 {
			t.Errorf("decoding %d bytes allocated %d", len(data), took)
		}
		if err != nil {
			return
		}
		again, err := Encode(s)
		if err != nil {
			t.Fatalf("encode the decoded session: %v", err)
		}
		s2, err := Decode(again)
		if err != nil {
			t.Fatalf("decode the encoded session: %v", err)
		}
		if third, err := Encode(s2); err != nil || !bytes.Equal(third, again) {
			t.Errorf("one session has two encodings: %v", err)
		}
	})
}
