package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrSaved is in the chain of every error about the saved content of a session file.
var ErrSaved = errors.New("saved session file cannot be used")

// Save copies the file's content, which nobody may change meanwhile. What only copies in progress
// use is zeros.
func (f *File) Save() []byte {
	saved := bytes.Clone(f.data)
	clear(saved[BounceOffset:][:BounceBytes])
	return saved
}

// CheckSaved says what keeps a saved content from being restored. The rest of it may be anything: a
// worker trusts no word of a session file.
func CheckSaved(saved []byte) error {
	if len(saved) != SessionBytes {
		return fmt.Errorf("%w: %d bytes, want %d", ErrSaved, len(saved), SessionBytes)
	}
	word := func(offset int) uint32 { return binary.LittleEndian.Uint32(saved[offset:]) }
	if word(WordMagic) != Magic {
		return fmt.Errorf("%w: it is none", ErrSaved)
	}
	if version := word(WordVersion); version != Version {
		return fmt.Errorf("%w: version %d, want %d", ErrSaved, version, Version)
	}
	head, tail := binary.LittleEndian.Uint64(saved[WordHead:]), binary.LittleEndian.Uint64(saved[WordTail:])
	if head != tail {
		return fmt.Errorf("%w: calls were not done yet: %d bytes posted, %d consumed", ErrSaved, head, tail)
	}
	return nil
}

const pageBytes = 4 << 10

var zeros [pageBytes]byte

// Restore fills a new file with a saved content, for a session under another number. The gate is
// closed.
func (f *File) Restore(saved []byte, session uint64) error {
	if err := CheckSaved(saved); err != nil {
		return err
	}
	for at := 0; at < len(saved); at += pageBytes {
		// The file is zeros, and most of what was saved is: pages that nobody touches are not made.
		if page := saved[at:min(at+pageBytes, len(saved))]; !bytes.Equal(page, zeros[:len(page)]) {
			copy(f.data[at:], page)
		}
	}
	f.Word64(WordSession).Store(session)
	f.Word32(WordEpoch).Add(1)
	f.Word32(WordDead).Store(0)
	f.Word32(WordDoorbell).Store(0)
	f.Word32(WordWorker).Store(0)
	f.Word32(WordGate).Store(GateClosed | GateRestored)
	return nil
}
