package image

import (
	"bytes"
	"runtime"
	"testing"
)

// bounded fails if decoding takes more memory than a small multiple of the input.
func bounded(t *testing.T, given int, decode func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(given)*64+1<<20 {
		t.Errorf("%d bytes took %d to decode", given, took)
	}
}

func sampleTree() *Tree {
	return &Tree{Entries: []Entry{
		{Kind: Memory, Name: "gpu0", Bytes: ChunkBytes + 100, Chunks: []Chunk{
			{Address: 2 * ChunkBytes, Bytes: ChunkBytes, Hash: Hash{1}}, {Address: 50, Bytes: 100},
		}},
		{Kind: File, Name: "session", Bytes: ChunkBytes + 5, Chunks: []Chunk{
			{Bytes: ChunkBytes, Hash: Hash{2}}, {Address: ChunkBytes, Bytes: 5, Hash: Hash{3}},
		}},
	}}
}

func FuzzTree(f *testing.F) {
	raw, err := sampleTree().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded(t, len(raw), func() {
			tree, err := DecodeTree(raw)
			if err != nil {
				return
			}
			if again, err := tree.Encode(); err != nil || !bytes.Equal(again, raw) {
				t.Errorf("decoded tree encodes differently: %v", err)
			}
		})
	})
}

func FuzzList(f *testing.F) {
	f.Add((&List{Bytes: ChunkBytes + 1, Parts: []Hash{{1}, {2}}}).Encode())
	f.Add([]byte(listMagic))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded(t, len(raw), func() {
			list, err := DecodeList(raw)
			if err == nil && !bytes.Equal(list.Encode(), raw) {
				t.Error("decoded list encodes differently")
			}
		})
	})
}

// FuzzManifest seals its input, so that mutations get past the checksum.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"version":1,"generation":3,"processes":[{"pid":1,"gpu":{"tree":"00"}}],"owner":{"uid":0}}`))
	f.Add([]byte(`{"version":1,"processes":[{},{},{}],"files":[{},{}]}`))
	f.Add(bytes.Repeat([]byte("{},"), 5000))
	key := NewKey([32]byte{9})
	f.Fuzz(func(t *testing.T, text []byte) {
		bounded(t, len(text), func() {
			if m, err := decodeManifest(text); err == nil {
				sealed, err := SealManifest(m, key)
				if err != nil {
					return
				}
				if _, _, err := OpenSealed(sealed, []Key{key}); err != nil {
					t.Errorf("open sealed manifest: %v", err)
				}
			}
			_, _, _ = OpenSealed(text, []Key{key})
		})
	})
}

func FuzzSigned(f *testing.F) {
	key := NewKey([32]byte{9})
	sealed, err := SealManifest(&Manifest{Version: 1, Generation: 2, Owner: Owner{UID: 5}}, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(sealed[:40])
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded(t, len(raw), func() {
			if _, _, err := OpenSealed(raw, []Key{key}); err == nil && !bytes.Equal(raw, sealed) {
				t.Error("forged manifest was accepted")
			}
		})
	})
}

func FuzzPack(f *testing.F) {
	f.Add(PackHeader{Store: ID{1}, Pack: ID{2}}.Encode(), int64(1<<20))
	f.Add(Record{Hash: Hash{1}, ContentBytes: 9, StoredBytes: 9}.Encode(), int64(1<<20))
	f.Add(append(Trailer{Index: 64, Entries: 0}.Head(), make([]byte, 32)...), int64(128))
	f.Add(AppendPlace(nil, Place{Hash: Hash{1}, Offset: 128, StoredBytes: 4, ContentBytes: 4}), int64(1<<20))
	f.Add(Marker{ID{3}}.Encode(), int64(0))
	f.Add(Frame{ManifestMagic, 5}.Encode(), int64(0))
	f.Fuzz(func(t *testing.T, raw []byte, length int64) {
		same := func(what string, again []byte) {
			if !bytes.Equal(again, raw) {
				t.Errorf("decoded %s encodes differently", what)
			}
		}
		if h, err := DecodePackHeader(raw); err == nil {
			same("a header", h.Encode())
		}
		if r, err := DecodeRecord(raw); err == nil {
			same("a record", r.Encode())
		}
		if p, err := DecodePlace(raw, length); err == nil {
			same("a place", AppendPlace(nil, p))
			if length < 0 || p.Offset+uint64(p.StoredBytes) > uint64(length) {
				t.Error("place beyond the end of the pack")
			}
		}
		if tr, err := DecodeTrailer(raw, length); err == nil &&
			int64(tr.Index+tr.Entries*IndexEntryBytes+TrailerBytes) != length {
			t.Error("index does not end at the end of the pack")
		}
		if m, err := DecodeMarker(raw); err == nil {
			same("a marker", m.Encode())
		}
		if fr, err := DecodeFrame(raw); err == nil {
			same("a frame", fr.Encode())
		}
		_ = CheckStreamHeader(raw)
		_ = IsRun(raw, ID{1}, length)
	})
}
