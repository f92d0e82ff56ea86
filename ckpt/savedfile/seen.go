package savedfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrChanged is returned when a file is not as it was when a restore decided about it.
var ErrChanged = errors.New("changed while the restore began")

// Seen is a file as it was when a restore decided about it. Seconds may pass until the restore
// writes the file, and the decision is only good for this state.
type Seen struct {
	// Missing is set if there was no file. The other fields are unset then.
	Missing bool   `json:"missing,omitempty"`
	Inode   uint64 `json:"inode,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	// Modified and Changed are mtime and ctime in nanoseconds.
	Modified int64 `json:"mtime,omitempty"`
	Changed  int64 `json:"ctime,omitempty"`
	// Hash, if not empty, is that of the first HashBytes bytes. Times do not prove it, because
	// writes through a mapping may leave them as they were.
	Hash      string `json:"hash,omitempty"`
	HashBytes uint64 `json:"hash_bytes,omitempty"`
}

// seen returns what was found. The hash is set if the decision depends on the content.
func (s *state) seen(hash string, bytes uint64) *Seen {
	if s.change == Missing {
		return &Seen{Missing: true}
	}
	return &Seen{
		Inode: s.stat.Ino, Bytes: s.stat.Size, Modified: s.stat.Mtim.Nano(), Changed: s.stat.Ctim.Nano(),
		Hash: hash, HashBytes: bytes,
	}
}

// Check returns an error, mostly ErrChanged, unless this open file was seen.
func (s *Seen) Check(file *os.File) error {
	var now unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &now); err != nil {
		return err
	}
	if s.Missing || now.Ino != s.Inode || now.Size != s.Bytes || now.Mtim.Nano() != s.Modified ||
		now.Ctim.Nano() != s.Changed {
		return ErrChanged
	}
	return nil
}

// CheckContent returns an error, mostly ErrChanged, unless the file has the content that was seen.
func (s *Seen) CheckContent(ctx context.Context, file *os.File) error {
	if s.Hash == "" {
		return nil
	}
	content := io.NewSectionReader(file, 0, int64(s.HashBytes))
	hash, err := Hash(file.Name(), Cancellable(ctx, content), s.HashBytes)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return ErrChanged
	case err != nil:
		return fmt.Errorf("compare with the image: %w", err)
	case hash != s.Hash:
		return ErrChanged
	}
	return nil
}

// Cancellable returns a reader that fails once the context has ended.
func Cancellable(ctx context.Context, from io.Reader) io.Reader { return &cancellable{ctx, from} }

type cancellable struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (c *cancellable) Read(to []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.Reader.Read(to)
}
