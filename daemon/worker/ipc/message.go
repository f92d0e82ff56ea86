package ipc

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ID is a random number that cannot be guessed.
type ID [16]byte

// NewID returns a new ID.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// Token names a grant.
type Token struct {
	// Exporter names the exporting session, Key the grant.
	Exporter, Key ID
}

// Kind says what a grant shares.
type Kind uint32

// Kinds of grants.
const (
	Memory Kind = 1
	Event  Kind = 2
)

// Grant is the memory or the event that a token names.
type Grant struct {
	Kind Kind
	// Ordinal is the GPU of the memory.
	Ordinal int32
	// Offset and FileBytes are the range of the file that holds it.
	Offset, FileBytes uint64
	// Within and Bytes are the granted range, relative to Offset: allocations share chunks.
	Within, Bytes uint64
	// File is closed by the receiver.
	File *os.File
}

const (
	requestBytes = 4 + 16
	replyBytes   = 4 + 4 + 4 + 4*8
)

// request returns the frame that requests a grant.
func request(kind Kind, key ID) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(kind)), key[:]...)
}

func parseRequest(frame []byte) (kind Kind, key ID, err error) {
	if len(frame) != requestBytes {
		return 0, key, fmt.Errorf("request has %d bytes: %w", len(frame), abi.InvalidHandle)
	}
	copy(key[:], frame[4:])
	return Kind(binary.LittleEndian.Uint32(frame)), key, nil
}

// reply returns the frame of a reply. The file is sent with it as SCM_RIGHTS.
func (g *Grant) reply(code abi.Result) []byte {
	frame := binary.LittleEndian.AppendUint32(nil, uint32(code))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(g.Kind))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(g.Ordinal))
	for _, word := range []uint64{g.Offset, g.FileBytes, g.Within, g.Bytes} {
		frame = binary.LittleEndian.AppendUint64(frame, word)
	}
	return frame
}

func parseReply(frame []byte) (g Grant, err error) {
	if len(frame) != replyBytes {
		return g, fmt.Errorf("reply has %d bytes: %w", len(frame), abi.InvalidHandle)
	}
	if code := abi.Result(binary.LittleEndian.Uint32(frame)); code != abi.Success {
		return g, fmt.Errorf("refused by the exporting session: %w", code)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(frame[12+8*i:]) }
	g = Grant{
		Kind: Kind(binary.LittleEndian.Uint32(frame[4:])), Ordinal: int32(binary.LittleEndian.Uint32(frame[8:])),
		Offset: word(0), FileBytes: word(1), Within: word(2), Bytes: word(3),
	}
	if g.Within > g.FileBytes || g.Bytes > g.FileBytes-g.Within || g.FileBytes > 1<<50 || g.Offset > 1<<50 {
		return g, fmt.Errorf("grant of %d bytes at %d exceeds %d: %w", g.Bytes, g.Within, g.FileBytes, abi.InvalidHandle)
	}
	return g, nil
}

// Dir is the directory of the sockets of one user's sessions. phosd made it, and only that user can
// create files in it. Empty stands for names that every user could take, for a worker that an
// earlier phosd has started.
type Dir string

// address returns the socket address of an exporter.
func (d Dir) address(exporter ID) *net.UnixAddr {
	name := "@phos-sharing-" + hex.EncodeToString(exporter[:])
	if d != "" {
		name = filepath.Join(string(d), hex.EncodeToString(exporter[:]))
	}
	return &net.UnixAddr{Net: "unixpacket", Name: name}
}

// dial connects to an exporter. The error is ErrGone if there is none.
func (d Dir) dial(exporter ID) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unixpacket", nil, d.address(exporter))
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
		return nil, ErrGone
	}
	return conn, err
}
