package contents

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// maxContents bounds the contents of all packs together: 8 TiB of chunks. Each takes memory while
// the image is read, and the image may come from another user.
const maxContents = 1 << 22

// indexPiece is how many entries of an index are read at once.
const indexPiece = 4096

// LoadIndex reads the index of a pack. Memory grows with what is actually there, whatever the
// trailer says.
func LoadIndex(pack *os.File) ([]image.Place, error) {
	info, err := pack.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < image.PackHeaderBytes+image.TrailerBytes {
		return nil, fmt.Errorf("%w: the pack has no end", image.ErrMalformed)
	}
	if _, err := LoadHeader(pack); err != nil {
		return nil, err
	}
	raw := make([]byte, image.TrailerBytes)
	if err := readAt(pack, raw, info.Size()-image.TrailerBytes); err != nil {
		return nil, err
	}
	trailer, err := image.DecodeTrailer(raw, info.Size())
	if err != nil {
		return nil, err
	}
	places, sum, err := loadPlaces(pack, trailer)
	if err != nil {
		return nil, err
	}
	if sum != trailer.Sum {
		return nil, fmt.Errorf("%w: the checksum of the index is wrong", image.ErrMalformed)
	}
	return places, nil
}

// loadPlaces reads the index and computes its sum.
func loadPlaces(pack *os.File, trailer image.Trailer) (places []image.Place, sum image.Hash, err error) {
	if trailer.Entries > maxContents {
		return nil, sum, fmt.Errorf("%w: more than %d contents", ErrTooLarge, maxContents)
	}
	hasher := blake3.New()
	piece := make([]byte, min(trailer.Entries, indexPiece)*image.IndexEntryBytes)
	at, left := int64(trailer.Index), trailer.Entries
	for left > 0 {
		raw := piece[:min(left, indexPiece)*image.IndexEntryBytes]
		if err := readAt(pack, raw, at); err != nil {
			return nil, sum, err
		}
		_, _ = hasher.Write(raw)
		at, left = at+int64(len(raw)), left-uint64(len(raw))/image.IndexEntryBytes
		for entry := range slices.Chunk(raw, image.IndexEntryBytes) {
			place, err := image.DecodePlace(entry, int64(trailer.Index))
			if err == nil && len(places) > 0 && places[len(places)-1].Hash.Compare(place.Hash) >= 0 {
				err = fmt.Errorf("%w: the index is not in order", image.ErrMalformed)
			}
			if err != nil {
				return nil, sum, err
			}
			places = append(places, place)
		}
	}
	_, _ = hasher.Write(trailer.Head())
	return places, image.Hash(hasher.Sum(nil)), nil
}

// LoadHeader reads the header of a pack.
func LoadHeader(pack *os.File) (image.PackHeader, error) {
	raw := make([]byte, image.PackHeaderBytes)
	if err := readAt(pack, raw, 0); err != nil {
		return image.PackHeader{}, err
	}
	return image.DecodePackHeader(raw)
}

// encodeIndex returns the index and the trailer at an offset of a pack.
func encodeIndex(places []image.Place, at int64) []byte {
	slices.SortFunc(places, func(a, b image.Place) int { return a.Hash.Compare(b.Hash) })
	out := make([]byte, 0, len(places)*image.IndexEntryBytes+image.TrailerBytes)
	for _, place := range places {
		out = image.AppendPlace(out, place)
	}
	out = append(out, image.Trailer{Index: uint64(at), Entries: uint64(len(places))}.Head()...)
	sum := blake3.Sum256(out)
	return append(out, sum[:]...)
}

// Scan finds the contents of a pack without its index: the records of the runs, and whole chunks by
// hashing them.
func Scan(pack *os.File) (places []image.Place) {
	info, err := pack.Stat()
	if err != nil {
		return nil
	}
	header, err := LoadHeader(pack)
	if err != nil {
		return nil
	}
	seen := map[image.Hash]bool{}
	buffer := buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(buffer)
	for at := int64(0); at < info.Size() && len(places) < maxContents; {
		found, next := []image.Place(nil), at+image.ChunkBytes
		if isRun(pack, header, at) {
			var end int64
			found, end, _ = scanRun(pack, at, info.Size())
			next = max(next, image.RoundUp(end, image.ChunkBytes))
		} else if data := nextData(pack, at); data >= next {
			next = data &^ (image.ChunkBytes - 1)
		} else if readAt(pack, buffer[:], at) == nil {
			found = []image.Place{slotPlace(image.Sum(buffer[:]), at)}
		}
		for _, each := range found {
			if !each.Hash.IsZero() && !seen[each.Hash] {
				seen[each.Hash] = true
				places = append(places, each)
			}
		}
		at = next
	}
	return places
}

// nextData returns the offset of the next data after holes, so that a sparse file of any length is
// skipped quickly.
func nextData(file *os.File, from int64) int64 {
	at, err := unix.Seek(int(file.Fd()), from, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return math.MaxInt64
	case err != nil:
		return from // the file system does not support SEEK_DATA
	}
	return at
}

// slotPlace returns the place of a whole chunk in a slot.
func slotPlace(h image.Hash, at int64) image.Place {
	return image.Place{Hash: h, Offset: uint64(at), StoredBytes: image.ChunkBytes, ContentBytes: image.ChunkBytes}
}

// isRun reports whether a run begins at a slot. The first slot always begins one.
func isRun(pack *os.File, header image.PackHeader, at int64) bool {
	if at == 0 {
		return true
	}
	raw := make([]byte, image.RunHeaderBytes)
	return readAt(pack, raw, at) == nil && image.IsRun(raw, header.Pack, at)
}

// scanRun lists the records of a run that ends before limit; end is the offset after the last valid
// one. An error means that the record at end is damaged.
func scanRun(pack *os.File, at, limit int64) (places []image.Place, end int64, err error) {
	raw := make([]byte, image.RecordHeaderBytes)
	for at += image.RunHeaderBytes; at+image.RecordHeaderBytes <= limit && len(places) < maxContents; {
		if err := readAt(pack, raw, at); err != nil {
			return places, at, err
		}
		if string(raw[:4]) != image.RecordMagic {
			return places, at, nil
		}
		record, err := image.DecodeRecord(raw)
		if err == nil && at+record.Bytes() > limit {
			err = fmt.Errorf("%w: a record goes beyond its end", image.ErrMalformed)
		}
		if err == nil {
			err = checkPadding(pack, record, at)
		}
		if err != nil {
			return places, at, err
		}
		places, at = append(places, placeOf(record, at)), at+record.Bytes()
	}
	return places, at, nil
}

// checkPadding checks that all padding is zero.
func checkPadding(pack *os.File, record image.Record, at int64) error {
	stored := at + image.RecordHeaderBytes + int64(record.PadBytes)
	return errors.Join(
		checkZeros(pack, at+image.RecordHeaderBytes, stored),
		checkZeros(pack, stored+int64(record.StoredBytes), at+record.Bytes()))
}

// checkZeros checks that a range of the pack is zero.
func checkZeros(pack *os.File, from, to int64) error {
	if from == to {
		return nil
	}
	buffer := buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(buffer)
	for from = nextData(pack, from); from < to; from = nextData(pack, from+image.ChunkBytes) {
		gap := buffer[:min(to-from, image.ChunkBytes)]
		if err := readAt(pack, gap, from); err != nil {
			return err
		}
		if !image.Zeros(gap) {
			at := from + int64(slices.IndexFunc(gap, func(b byte) bool { return b != 0 }))
			return fmt.Errorf("%w: unexpected data at %d", image.ErrMalformed, at)
		}
	}
	return nil
}

// placeOf returns the place of a record at an offset.
func placeOf(record image.Record, at int64) image.Place {
	return image.Place{
		Hash: record.Hash, Offset: uint64(at) + image.RecordHeaderBytes + uint64(record.PadBytes),
		StoredBytes: record.StoredBytes, ContentBytes: record.ContentBytes, Encoding: record.Encoding,
	}
}

// readAt reads all of raw, or returns an error with the length of the file.
func readAt(file *os.File, raw []byte, at int64) error {
	n, err := file.ReadAt(raw, at)
	if n == len(raw) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s ends at %d", image.ErrMalformed, file.Name(), at+int64(n))
	}
	return err
}
