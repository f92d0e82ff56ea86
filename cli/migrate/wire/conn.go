package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxLine is the length of the longest message. bufferBytes is the size of reads and writes.
const (
	maxLine     = 64 << 10
	bufferBytes = 1 << 20
)

// ErrForeign is returned for a line that is no message: the other side is no pos_cli of this
// version, or something else writes to its output.
var ErrForeign = errors.New("not a message of a migration")

// Conn is one side's end. Several goroutines may send; one receives.
type Conn struct {
	in *bufio.Reader

	mu  sync.Mutex // guards out
	out *bufio.Writer
}

// New returns an end that reads and writes so.
func New(in io.Reader, out io.Writer) *Conn {
	return &Conn{in: bufio.NewReaderSize(in, bufferBytes), out: bufio.NewWriterSize(out, bufferBytes)}
}

// Send sends a message.
func (c *Conn) Send(m Message) error {
	return c.SendStream(m, func(io.Writer) error { return nil })
}

// SendStream sends a message, and what write writes behind it.
func (c *Conn) SendStream(m Message, write func(io.Writer) error) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A failed write would be returned by all that follow.
	_, _ = c.out.Write(append(line, '\n'))
	if err := write(c.out); err != nil {
		return err
	}
	return c.out.Flush()
}

// Receive returns the next message; io.EOF: the other side has ended.
func (c *Conn) Receive() (m Message, err error) {
	var line []byte
	for {
		piece, err := c.in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil:
			if err := json.Unmarshal(line, &m); err != nil || m.Kind == "" {
				return m, fmt.Errorf("%w: %.80q", ErrForeign, line)
			}
			return m, nil
		case errors.Is(err, io.EOF) && len(line) > 0, len(line) > maxLine:
			return m, fmt.Errorf("%w: %.80q", ErrForeign, line)
		case !errors.Is(err, bufio.ErrBufferFull):
			return m, err
		}
	}
}

// Stream returns what follows the message that was received last. Its reader must not read beyond
// the end of the stream.
func (c *Conn) Stream() io.Reader { return c.in }
