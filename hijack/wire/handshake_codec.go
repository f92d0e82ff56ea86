package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// ErrHandshake is a handshake message that makes no sense.
var ErrHandshake = errors.New("bad handshake")

// HelloCopyByShim in Hello.Flags asks the worker never to touch the program's memory itself.
const HelloCopyByShim = 1

// Sizes of the texts in a Welcome, each with a terminating zero.
const (
	welcomeFixed   = 40
	welcomePath    = 128
	welcomeMessage = 200
)

// Hello is what a program says first.
type Hello struct {
	Version       uint32
	Flags         uint64
	CookieAddress uint64
	Cookie        uint64
	// PID is the program's own view of itself; phosd trusts only the socket's credentials.
	PID uint32
}

// Decode reads HelloBytes bytes. A version other than ours is no error here: the answer must still
// be sent.
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

// Append writes HelloBytes bytes.
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

// Welcome is the answer: a session, or why there is none.
type Welcome struct {
	// Status is not abi.Success in a refusal; Message then says why.
	Status abi.Result
	// WorkerPID is for PR_SET_PTRACER; 0 where the program sees other pids.
	WorkerPID    uint32
	Session      uint64
	SessionBytes uint64
	ArenaBytes   uint64
	SessionPath  string
	ArenaPath    string
	// Message is for the program's standard error, also when all is well (a wrong pos.yaml).
	Message string
}

// cutOff ends a message that was too long. Whoever sends one has its whole text in the log, and of
// a pos.yaml in the status.
const cutOff = "...; all of it: pos_cli --status, or phosd's log"

// Append writes WelcomeBytes bytes. A text that is too long is cut.
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
	return append(data, make([]byte, begin+WelcomeBytes-len(data))...)
}

// Decode reads WelcomeBytes bytes; version is the sender's.
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
	}
	return binary.LittleEndian.Uint32(data[4:]), nil
}

func text(field []byte) string {
	if end := bytes.IndexByte(field, 0); end >= 0 {
		field = field[:end]
	}
	return string(field)
}
