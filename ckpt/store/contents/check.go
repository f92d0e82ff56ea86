package contents

import (
	"os"

	"github.com/phos-gpu/phos/ckpt/image"
)

// Check reads a content and verifies it.
func Check(pack *os.File, at image.Place) error {
	stored, content := buffers.Get().(*[image.ChunkBytes]byte), buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(stored)
	defer buffers.Put(content)
	return loadStored(pack, at, stored[:at.StoredBytes], content[:at.ContentBytes])
}

// Layout reads the slots of a pack from front to back and lists its contents. It reports unexpected
// data by complain. The caller has checked the pack's header and index.
func Layout(
	pack *os.File,
	header image.PackHeader,
	index []image.Place,
	complain func(format string, arguments ...any),
) (laid []image.Place) {
	slots := map[int64]image.Place{}
	for _, each := range index {
		if each.Slot() {
			slots[int64(each.Offset)] = each
		}
	}
	info, err := pack.Stat()
	if err != nil {
		complain("%v", err)
		return nil
	}
	end := info.Size() - image.TrailerBytes - int64(len(index))*image.IndexEntryBytes
	for at := int64(0); at < end; {
		chunk, whole := slots[at]
		switch {
		case whole && at+image.ChunkBytes <= end:
			laid = append(laid, chunk)
			at += image.ChunkBytes
		case isRun(pack, header, at):
			records, next, err := scanRun(pack, at, end)
			laid = append(laid, records...)
			at = min(max(at+image.ChunkBytes, image.RoundUp(next, image.ChunkBytes)), end)
			if err != nil {
				complain("record at %d: %v", next, err)
			} else if err := checkZeros(pack, next, at); err != nil {
				complain("%v", err)
			}
		default:
			complain("neither a chunk nor a run at %d", at)
			at = max(at+image.ChunkBytes, min(nextData(pack, at), end)&^(image.ChunkBytes-1))
		}
	}
	return laid
}

// Remains lists the contents that a damaged pack should have, by the rest of its index.
func Remains(pack *os.File) []image.Place {
	info, err := pack.Stat()
	if err != nil || info.Size() < image.PackHeaderBytes+image.TrailerBytes {
		return nil
	}
	raw := make([]byte, image.TrailerBytes)
	if readAt(pack, raw, info.Size()-image.TrailerBytes) != nil {
		return nil
	}
	trailer, err := image.DecodeTrailer(raw, info.Size())
	if err != nil {
		return nil
	}
	places, _, _ := loadPlaces(pack, trailer) // a partial result is better than none
	return places
}

// Move copies a stored content from another pack, after verifying it.
func Move(w *Writer, from *os.File, at image.Place) error {
	stored, content := buffers.Get().(*[image.ChunkBytes]byte), buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(stored)
	defer buffers.Put(content)
	if err := loadStored(from, at, stored[:at.StoredBytes], content[:at.ContentBytes]); err != nil {
		return err
	}
	return w.putStored(image.Record{
		Hash: at.Hash, Encoding: at.Encoding, ContentBytes: at.ContentBytes, StoredBytes: at.StoredBytes,
	}, stored[:at.StoredBytes])
}
