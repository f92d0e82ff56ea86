package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrHandshake is returned for an invalid handshake message.
var ErrHandshake = errors.New("bad handshake")

// Sizes of the texts in a Welcome, each with a terminating zero.
const (
	welcomeFixed   = 40
	welcomePath    = 128
	welcomeMessage = 200
)

// Hello is the first message of a program.
type Hello struct {
	Version       uint32
	Flags         uint64
	CookieAddress uint64
	Cookie        uint64
	// PID is the program's pid in its own namespace; phosd trusts only the socket's credentials.
	PID uint32
}

// Decode decodes HelloBytes bytes. A different version is not an error here, because the answer
// must still be sent.
func (h *Hello) Decode(data []byte) error {
	if len(data) != HelloBytes || binary.LittleEndian.Uint32(data) != Magic {
		return fmt.Errorf("%w: hello of %d bytes", ErrHandshake, len(data))
	}
	*h = Hello{
		Version:       binary.LittleEndian.Uint32(data[4:]),
		Flags:         binary.LittleEndian.Uint64(data[8:]),
		CookieAddress: binary.LittleEndian.Uint64(data[16:]),
		Cookie:        binary.LittleEndian.Uint64(data[24:]),
		PID:           binary.LittleEndian.Uint32(data[32:]),
	}
	return nil
}

// Append appends HelloBytes bytes.
func (h *Hello) Append(data []byte) []byte {
	begin := len(data)
	data = binary.LittleEndian.AppendUint32(data, Magic)
	data = binary.LittleEndian.AppendUint32(data, h.Version)
	data = binary.LittleEndian.AppendUint64(data, h.Flags)
	data = binary.LittleEndian.AppendUint64(data, h.CookieAddress)
	data = binary.LittleEndian.AppendUint64(data, h.Cookie)
	data = binary.LittleEndian.AppendUint32(data, h.PID)
	return append(data, make([]byte, begin+HelloBytes-len(data))...)
}

// Welcome is the answer to Hello: a session, or a refusal.
type Welcome struct {
	// Status is abi.Success or, in a refusal, an error; then Message is the reason.
	Status abi.Result
	// WorkerPID is for PR_SET_PTRACER; 0 if the program is in another pid namespace.
	WorkerPID    uint32
	Session      uint64
	SessionBytes uint64
	ArenaBytes   uint64
	SessionPath  string
	ArenaPath    string
	// Message is for the program's standard error. It may be set without a refusal, for an invalid
	// pos.yaml.
	Message string
	// Features say which further messages the worker expects.
	Features uint32
}

// cutOff replaces the end of a message that is too long. phosd's log has the whole text; the status
// has that of a pos.yaml.
const cutOff = "...; all of it: pos_cli --status, or phosd's log"

// Append appends WelcomeBytes bytes. Texts that are too long are truncated.
func (w *Welcome) Append(data []byte) []byte {
	begin := len(data)
	data = binary.LittleEndian.AppendUint32(data, Magic)
	data = binary.LittleEndian.AppendUint32(data, Version)
	data = binary.LittleEndian.AppendUint32(data, uint32(w.Status))
	data = binary.LittleEndian.AppendUint32(data, w.WorkerPID)
	data = binary.LittleEndian.AppendUint64(data, w.Session)
	data = binary.LittleEndian.AppendUint64(data, w.SessionBytes)
	data = binary.LittleEndian.AppendUint64(data, w.ArenaBytes)
	for _, text := range []struct {
		value string
		room  int
	}{{w.SessionPath, welcomePath}, {w.ArenaPath, welcomePath}, {w.Message, welcomeMessage}} {
		field := make([]byte, text.room)
		if copy(field[:text.room-1], text.value) < len(text.value) && text.room == welcomeMessage {
			copy(field[text.room-1-len(cutOff):], cutOff)
		}
		data = append(data, field...)
	}
	data = binary.LittleEndian.AppendUint32(data, w.Features)
	return append(data, make([]byte, begin+WelcomeBytes-len(data))...)
}

// Decode decodes WelcomeBytes bytes; version is the sender's.
func (w *Welcome) Decode(data []byte) (version uint32, err error) {
	if len(data) != WelcomeBytes || binary.LittleEndian.Uint32(data) != Magic {
		return 0, fmt.Errorf("%w: welcome of %d bytes", ErrHandshake, len(data))
	}
	*w = Welcome{
		Status:       abi.Result(binary.LittleEndian.Uint32(data[8:])),
		WorkerPID:    binary.LittleEndian.Uint32(data[12:]),
		Session:      binary.LittleEndian.Uint64(data[16:]),
		SessionBytes: binary.LittleEndian.Uint64(data[24:]),
		ArenaBytes:   binary.LittleEndian.Uint64(data[32:]),
		SessionPath:  text(data[welcomeFixed:][:welcomePath]),
		ArenaPath:    text(data[welcomeFixed+welcomePath:][:welcomePath]),
		Message:      text(data[welcomeFixed+2*welcomePath:][:welcomeMessage]),
		Features:     binary.LittleEndian.Uint32(data[welcomeFixed+2*welcomePath+welcomeMessage:]),
	}
	return binary.LittleEndian.Uint32(data[4:]), nil
}

// text returns the text of a NUL-padded field.
func text(field []byte) string {
	if end := bytes.IndexByte(field, 0); end >= 0 {
		field = field[:end]
	}
	return string(field)
}
