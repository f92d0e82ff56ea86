package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Message is one direction of one call. The structs of zz_codec.go implement it.
type Message interface {
	Reply
	// Decode reads the message; arrays in it alias payload.
	Decode(payload []byte) error
}

// Reply is the result of a handler. Append appends its encoding to data.
type Reply interface {
	Append(data []byte) []byte
}

// ErrPayload is wrapped by every error about an invalid payload.
var ErrPayload = errors.New("malformed payload")

// PayloadError is an error in a payload. The program gets abi.InvalidValue.
type PayloadError struct {
	Message string // name of the Go struct
	Detail  string
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Message, ErrPayload, e.Detail)
}

// Unwrap returns both the sentinel and the driver's code.
func (e *PayloadError) Unwrap() []error { return []error{ErrPayload, abi.InvalidValue} }

// wrongLength returns the error of a payload with a wrong length.
func wrongLength(message string, have, want int) error {
	return &PayloadError{message, fmt.Sprintf("%d bytes, want %d", have, want)}
}

// Words is an inline array of 8-byte elements in a payload.
type Words []byte

// Len returns the number of elements.
func (w Words) Len() int { return len(w) / 8 }

// At returns element i.
func (w Words) At(i int) uint64 { return binary.LittleEndian.Uint64(w[8*i:]) }

// Handle returns element i as a handle.
func (w Words) Handle(i int) abi.Handle { return abi.Handle(w.At(i)) }

// MakeWords encodes elements.
func MakeWords[T ~uint64](elements ...T) Words {
	w := make(Words, 0, 8*len(elements))
	for _, e := range elements {
		w = binary.LittleEndian.AppendUint64(w, uint64(e))
	}
	return w
}

// appendArray encodes an array: its length in bytes, its content, and zeros up to a multiple of 8.
func appendArray[T ~string | ~[]byte](data []byte, array T) []byte {
	data = binary.LittleEndian.AppendUint64(data, uint64(len(array)))
	data = append(data, array...)
	for range -len(array) & 7 {
		data = append(data, 0)
	}
	return data
}

// arrayReader decodes the arrays at the end of a payload. problem is the first error.
type arrayReader struct {
	rest    []byte
	problem string
}

// array returns the next array, which aliases the payload, or nil after an error.
func (r *arrayReader) array(element int) []byte {
	if r.problem != "" {
		return nil
	}
	if len(r.rest) < 8 {
		r.problem = "array length is missing"
		return nil
	}
	length := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	if length > uint64(len(r.rest)) || (length+7)&^7 > uint64(len(r.rest)) {
		r.problem = fmt.Sprintf("array of %d bytes exceeds the remaining %d", length, len(r.rest))
		return nil
	}
	if length%uint64(element) != 0 {
		r.problem = fmt.Sprintf("array of %d bytes is not a multiple of %d", length, element)
		return nil
	}
	array := r.rest[:length:length]
	r.rest = r.rest[(length+7)&^7:]
	return array
}

// end returns the first error, or one if there are bytes left.
func (r *arrayReader) end(message string) error {
	if r.problem == "" && len(r.rest) > 0 {
		r.problem = fmt.Sprintf("%d bytes too many", len(r.rest))
	}
	if r.problem != "" {
		return &PayloadError{message, r.problem}
	}
	return nil
}
