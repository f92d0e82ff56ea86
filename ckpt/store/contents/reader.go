package contents

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/image/treehash"
)

// Reader finds contents in packs by their hashes and verifies what it reads. It is safe for
// concurrent use.
type Reader struct {
	packs  []*os.File
	places map[image.Hash]place
	// more are the other places of contents that are in several packs, in case the first is
	// damaged.
	more    map[image.Hash][]place
	damaged []error
}

// place is an image.Place without its hash.
type place struct {
	pack                      uint32
	storedBytes, contentBytes uint32
	encoding                  image.Encoding
	offset                    uint64
}

// NewReader reads the indices of packs. The caller keeps the files open and closes them.
func NewReader(packs []*os.File) (*Reader, error) {
	r := &Reader{packs: packs, places: map[image.Hash]place{}, more: map[image.Hash][]place{}}
	contents := 0
	for i, pack := range packs {
		places, err := LoadIndex(pack)
		if err != nil {
			if !errors.Is(err, image.ErrMalformed) && !errors.Is(err, image.ErrVersion) {
				return nil, fmt.Errorf("read %s: %w", pack.Name(), err)
			}
			// Contents found without the index are verified when they are read, like all others.
			// Without a valid header nothing is used. Errors for missing contents mention this
			// damage.
			r.damaged = append(r.damaged, fmt.Errorf("read index of %s: %w", pack.Name(), err))
			places = Scan(pack)
		}
		if contents += len(places); contents > maxContents {
			return nil, fmt.Errorf(
				"read %s: %w: more than %d contents; remove old generations",
				pack.Name(),
				ErrTooLarge,
				maxContents,
			)
		}
		for _, each := range places {
			r.add(each.Hash, place{uint32(i), each.StoredBytes, each.ContentBytes, each.Encoding, each.Offset})
		}
	}
	return r, nil
}

func (r *Reader) add(hash image.Hash, at place) {
	if _, ok := r.places[hash]; ok {
		r.more[hash] = append(r.more[hash], at)
		return
	}
	r.places[hash] = at
}

// Damaged lists errors in packs and their indices. Such packs were scanned instead.
func (r *Reader) Damaged() []error { return r.damaged }

// missing returns the error for a content that was not found, with damage that may be the cause.
func (r *Reader) missing(h image.Hash) error {
	if len(r.damaged) > 0 {
		return fmt.Errorf("%w: %s; it may have been lost with this: %w", ErrMissing, h, r.damaged[0])
	}
	return fmt.Errorf("%w: %s", ErrMissing, h)
}

// Has reports whether the reader has a content. Zeros always count. A nil Reader has nothing else.
func (r *Reader) Has(h image.Hash) bool {
	if h.IsZero() {
		return true
	}
	if r == nil {
		return false
	}
	_, ok := r.places[h]
	return ok
}

// All visits the hashes of all contents, in any order.
func (r *Reader) All() iter.Seq[image.Hash] { return maps.Keys(r.places) }

// hasPlain reports whether a content is stored uncompressed.
func (r *Reader) hasPlain(h image.Hash) bool {
	first, ok := r.places[h]
	return ok && (first.encoding == image.Raw ||
		slices.ContainsFunc(r.more[h], func(p place) bool { return p.encoding == image.Raw }))
}

// Bytes returns the length of a content, and whether the reader has it.
func (r *Reader) Bytes(h image.Hash) (int, bool) {
	at, ok := r.places[h]
	return int(at.contentBytes), ok
}

// StoredLength returns how many bytes of a pack a content takes; 0 if it is missing.
func (r *Reader) StoredLength(h image.Hash) uint64 { return uint64(r.places[h].storedBytes) }

// Read reads a content into dst, which may be longer, verifies it, and returns its length. The zero
// Hash fills dst with zeros. After an error the content of dst is undefined.
func (r *Reader) Read(h image.Hash, dst []byte) (int, error) {
	if h.IsZero() {
		clear(dst)
		return len(dst), nil
	}
	first, ok := r.places[h]
	if !ok {
		return 0, r.missing(h)
	}
	err := r.readPlace(h, first, dst)
	if err == nil {
		return int(first.contentBytes), nil
	}
	for _, other := range r.more[h] {
		if r.readPlace(h, other, dst) == nil {
			return int(other.contentBytes), nil
		}
	}
	return 0, err
}

// readPlace reads and verifies one copy of a content.
func (r *Reader) readPlace(h image.Hash, at place, dst []byte) error {
	if int(at.contentBytes) > len(dst) {
		return fmt.Errorf(
			"%w: content %s of %d bytes does not fit into %d",
			image.ErrMalformed,
			h,
			at.contentBytes,
			len(dst),
		)
	}
	dst = dst[:at.contentBytes:at.contentBytes]
	pack := r.packs[at.pack]
	if at.encoding == image.Raw {
		return readRaw(pack, h, int64(at.offset), dst)
	}
	return readZstd(pack, h, at, dst)
}

// pieceBytes is read and hashed at once, so that hashing reads from the cache.
const pieceBytes = 256 << 10

func readRaw(pack *os.File, h image.Hash, offset int64, dst []byte) error {
	readPiece := readAt
	if readDirect(pack, dst, offset) {
		readPiece = func(*os.File, []byte, int64) error { return nil } // already read
	}
	var sum image.Hash
	if treehash.Fast(len(dst)) {
		tree := treehash.NewTree()
		defer tree.Release()
		for done := 0; done < len(dst); done += pieceBytes {
			piece := dst[done:min(done+pieceBytes, len(dst))]
			if err := readPiece(pack, piece, offset+int64(done)); err != nil {
				return err
			}
			tree.Add(piece)
		}
		sum = tree.Sum()
	} else if len(dst) <= pieceBytes {
		if err := readPiece(pack, dst, offset); err != nil {
			return err
		}
		sum = blake3.Sum256(dst)
	} else {
		hasher := hashers.Get().(*blake3.Hasher)
		defer hashers.Put(hasher)
		hasher.Reset()
		for done := 0; done < len(dst); {
			piece := dst[done:min(done+pieceBytes, len(dst))]
			if err := readPiece(pack, piece, offset+int64(done)); err != nil {
				return err
			}
			_, _ = hasher.Write(piece)
			done += len(piece)
		}
		hasher.Sum(sum[:0])
	}
	if sum != h {
		return damaged(pack, h, offset)
	}
	return nil
}

func damaged(pack *os.File, h image.Hash, offset int64) error {
	return fmt.Errorf("%w: content %s at %d of %s is damaged", image.ErrMalformed, h, offset, pack.Name())
}

var (
	hashers = sync.Pool{New: func() any { return blake3.New() }}
	// buffers hold a stored content.
	buffers = sync.Pool{New: func() any { return new([image.ChunkBytes]byte) }}
	// decoders return at most as many bytes as requested, whatever a frame says.
	decoders = sync.Pool{New: func() any { return newDecoder() }}
)

func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderMaxMemory(image.ChunkBytes), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

func readZstd(pack *os.File, h image.Hash, at place, dst []byte) error {
	buffer := buffers.Get().(*[image.ChunkBytes]byte)
	defer buffers.Put(buffer)
	stored := buffer[:at.storedBytes]
	if err := readAt(pack, stored, int64(at.offset)); err != nil {
		return err
	}
	if unpack(h, stored, dst) != nil {
		return damaged(pack, h, int64(at.offset))
	}
	return nil
}

// Tree reads a tree.
func (r *Reader) Tree(h image.Hash) (*image.Tree, error) {
	tree, _, err := r.TreeParts(h)
	return tree, err
}

// TreeParts also returns the hashes of the contents in which the tree is stored.
func (r *Reader) TreeParts(h image.Hash) (*image.Tree, []image.Hash, error) {
	raw, err := r.Plain(h)
	if err != nil {
		return nil, nil, err
	}
	own := []image.Hash{h}
	if image.IsList(raw) {
		list, err := image.DecodeList(raw)
		if err != nil {
			return nil, nil, err
		}
		if raw, err = r.join(list); err != nil {
			return nil, nil, err
		}
		own = append(own, list.Parts...)
	}
	tree, err := image.DecodeTree(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("tree %s: %w", h, err)
	}
	return tree, own, nil
}

// join reads the parts of a list and checks their sizes: all but the last are whole chunks.
func (r *Reader) join(list *image.List) ([]byte, error) {
	var raw []byte
	for i, part := range list.Parts {
		content, err := r.Plain(part)
		if err != nil {
			return nil, err
		}
		if last := i == len(list.Parts)-1; len(content) != image.ChunkBytes && !last {
			return nil, fmt.Errorf("%w: part %d of a tree is %d bytes", image.ErrMalformed, i, len(content))
		}
		raw = append(raw, content...)
	}
	if uint64(len(raw)) != list.Bytes {
		return nil, fmt.Errorf("%w: a tree of %d bytes, and its parts are %d", image.ErrMalformed, list.Bytes, len(raw))
	}
	return raw, nil
}

// Plain reads an uncompressed content. Trees are never compressed, so reading one takes no more
// memory than its size on the disk.
func (r *Reader) Plain(h image.Hash) ([]byte, error) {
	first, ok := r.places[h]
	if !ok {
		return nil, r.missing(h)
	}
	err := fmt.Errorf("%w: tree %s is compressed", image.ErrMalformed, h)
	for _, at := range append([]place{first}, r.more[h]...) {
		if at.encoding != image.Raw {
			continue
		}
		content := make([]byte, at.contentBytes)
		if err = r.readPlace(h, at, content); err == nil {
			return content, nil
		}
	}
	return nil, err
}

// Open returns a reader for a file of a tree.
func (r *Reader) Open(entry image.Entry) io.ReaderAt { return &file{reader: r, entry: entry} }
