package packed

import (
	"encoding/binary"
	"math"
	"time"
)

// Reader reads the values of a row, in the order in which they were appended.
type Reader struct{ rest []byte }

// NewReader returns a reader of values.
func NewReader(values []byte) Reader { return Reader{values} }

// Uint reads a number that binary.AppendUvarint appended.
func (r *Reader) Uint() uint64 {
	value, n := binary.Uvarint(r.rest)
	r.rest = r.rest[n:]
	return value
}

// Int reads a number that binary.AppendVarint appended.
func (r *Reader) Int() int64 {
	value, n := binary.Varint(r.rest)
	r.rest = r.rest[n:]
	return value
}

// Time reads a time that AppendTime appended.
func (r *Reader) Time() time.Duration { return time.Duration(r.Int()) }

// Float reads a number that AppendFloat appended.
func (r *Reader) Float() float64 {
	value := math.Float64frombits(binary.LittleEndian.Uint64(r.rest))
	r.rest = r.rest[8:]
	return value
}

// Text reads a text that AppendText appended.
func (r *Reader) Text() string {
	length := r.Uint()
	text := string(r.rest[:length])
	r.rest = r.rest[length:]
	return text
}

// AppendTime appends a time to a row.
func AppendTime(to []byte, at time.Duration) []byte { return binary.AppendVarint(to, int64(at)) }

// AppendFloat appends a number to a row.
func AppendFloat(to []byte, value float64) []byte {
	return binary.LittleEndian.AppendUint64(to, math.Float64bits(value))
}

// AppendText appends a text to a row.
func AppendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}
