package fdtoken

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/phos-gpu/phos/daemon/api"
)

// A connection carries
//
//	u32 "PHFD", u32 number of files
//	for each group of at most groupFiles files: u32 number of files, with the files as SCM_RIGHTS
//	on that message
//
// and is answered with u32 status, u32 length, and the token (status 0) or an error text.

// Magic is the first word, little-endian, of a connection that hands off files: "PHFD".
const Magic = 'P' | 'H'<<8 | 'F'<<16 | 'D'<<24

const (
	headBytes  = 8
	groupBytes = 4
	// groupFiles is below the kernel's limit for one message (SCM_MAX_FD, 253).
	groupFiles = 128
	// textBytes is the maximum length of an error text.
	textBytes = 1 << 10
)

// Statuses of an answer.
const (
	statusKept     = 0
	statusTooMany  = 1
	statusRefused  = 2
	answerHeadSize = 8
)

// errMessage is wrapped by every error about the bytes of a connection.
var errMessage = errors.New("malformed handoff")

// appendAnswer appends the answer with a token, or with the reason of a refusal.
func appendAnswer(data []byte, name token, reason error) []byte {
	if reason == nil {
		data = binary.LittleEndian.AppendUint32(data, statusKept)
		data = binary.LittleEndian.AppendUint32(data, TokenBytes)
		return append(data, name[:]...)
	}
	status, text := uint32(statusRefused), reason.Error()
	if errors.Is(reason, ErrTooMany) {
		status = statusTooMany
	}
	text = text[:min(len(text), textBytes)]
	data = binary.LittleEndian.AppendUint32(data, status)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(text)))
	return append(data, text...)
}

// readAnswer reads the answer of Accept.
func readAnswer(conn net.Conn) ([]byte, error) {
	var head [answerHeadSize]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	status, length := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if length > textBytes || status == statusKept && length != TokenBytes {
		return nil, fmt.Errorf("%w: answer has %d bytes", errMessage, length)
	}
	content := make([]byte, length)
	if _, err := io.ReadFull(conn, content); err != nil {
		return nil, err
	}
	switch status {
	case statusKept:
		return content, nil
	case statusTooMany:
		return nil, &api.Error{Text: string(content), Err: ErrTooMany}
	}
	return nil, &api.Error{Text: string(content), Err: api.ErrInvalid}
}
