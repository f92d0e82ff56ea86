package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrSaved is wrapped by every error about the saved content of a session file.
var ErrSaved = errors.New("saved session file cannot be used")

// Save returns a copy of the file's content. The file must not change during the call. The bounce
// area is zeroed.
func (f *File) Save() []byte {
	saved := bytes.Clone(f.data)
	clear(saved[BounceOffset:][:BounceBytes])
	return saved
}

// CheckSaved returns an error if a saved content cannot be restored. Other words may have any
// value: a worker never trusts a session file.
func CheckSaved(saved []byte) error {
	if len(saved) != SessionBytes {
		return fmt.Errorf("%w: %d bytes, want %d", ErrSaved, len(saved), SessionBytes)
	}
	word := func(offset int) uint32 { return binary.LittleEndian.Uint32(saved[offset:]) }
	if word(WordMagic) != Magic {
		return fmt.Errorf("%w: wrong magic", ErrSaved)
	}
	if version := word(WordVersion); version != Version {
		return fmt.Errorf("%w: version %d, want %d", ErrSaved, version, Version)
	}
	head, tail := binary.LittleEndian.Uint64(saved[WordHead:]), binary.LittleEndian.Uint64(saved[WordTail:])
	if head != tail {
		return fmt.Errorf("%w: calls are pending: %d bytes posted, %d consumed", ErrSaved, head, tail)
	}
	return nil
}

const pageBytes = 4 << 10

var zeros [pageBytes]byte

// Restore fills a new file with a saved content, for a session with a new number. The gate is
// closed.
func (f *File) Restore(saved []byte, session uint64) error {
	if err := CheckSaved(saved); err != nil {
		return err
	}
	for at := 0; at < len(saved); at += pageBytes {
		// The new file is all zeros. Skip zero pages, so that they are not allocated.
		if page := saved[at:min(at+pageBytes, len(saved))]; !bytes.Equal(page, zeros[:len(page)]) {
			copy(f.data[at:], page)
		}
	}
	f.Word64(WordSession).Store(session)
	f.Word32(WordEpoch).Add(1)
	f.Word32(WordDead).Store(0)
	f.Word32(WordDoorbell).Store(0)
	f.Word32(WordWorker).Store(0)
	f.Word32(WordDamage).Store(0)
	f.Word32(WordGate).Store(GateClosed | GateRestored)
	return nil
}
