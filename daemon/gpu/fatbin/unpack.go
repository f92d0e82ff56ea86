package fatbin

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Maximum compression ratios: LZ4 has match length bytes of 255, zstd has blocks of 128 KiB in four
// bytes. The claimed size of an entry is allocated only if its input can expand to it.
const (
	maxLZ4Ratio  = 255
	maxZstdRatio = 128 << 10 / 4
)

// unzstd is created on first use: most programs have no zstd entries, and the decoder has large
// tables.
var unzstd = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
})

// unpack returns the entry's decompressed payload.
func (e *entry) unpack() ([]byte, error) {
	switch {
	case e.flags&flagLZ4 != 0:
		return e.unpackLZ4()
	case e.flags&flagZstd != 0:
		return e.unpackZstd()
	}
	return e.packed, nil
}

// unpackLZ4 decompresses an LZ4 block, which must give exactly the claimed size.
func (e *entry) unpackLZ4() ([]byte, error) {
	if err := e.credible(maxLZ4Ratio); err != nil {
		return nil, err
	}
	out := make([]byte, e.unpacked)
	n, err := lz4.UncompressBlock(e.packed, out)
	return e.exactly(out, n, err)
}

// unpackZstd decompresses zstd frames, which must give exactly the claimed size.
func (e *entry) unpackZstd() ([]byte, error) {
	if err := e.credible(maxZstdRatio); err != nil {
		return nil, err
	}
	decoder, err := unzstd()
	if err != nil {
		return nil, fmt.Errorf("zstd decoder: %w", err)
	}
	out, err := decoder.DecodeAll(e.packed, make([]byte, 0, e.unpacked)) // limited to the capacity
	return e.exactly(out, len(out), err)
}

// credible checks that the claimed size is possible for a compression ratio.
func (e *entry) credible(ratio uint64) error {
	if e.unpacked > uint64(len(e.packed))*ratio {
		return refuse(e.offset, ErrCompression, "%d bytes cannot become %d", len(e.packed), e.unpacked)
	}
	return nil
}

// exactly returns out if it has the claimed size.
func (e *entry) exactly(out []byte, n int, err error) ([]byte, error) {
	if err != nil {
		return nil, refuse(e.offset, ErrCompression, "%s", err)
	}
	if uint64(n) != e.unpacked {
		return nil, refuse(e.offset, ErrCompression, "unpacks to %d bytes, not %d", n, e.unpacked)
	}
	return out[:n], nil
}
