package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/cluster/api"
)

// Limits of a zip file and of what it becomes.
const (
	MaxZip    = 64 << 20
	maxPlain  = 2 << 30
	maxPacked = 128 << 20
	maxFiles  = 100_000
	maxName   = 4095
)

// ErrZip means that a zip file has what no launch may bring.
var ErrZip = errors.New("the zip file is refused")

// Packed is code as agents unpack it.
type Packed struct{ Bytes []byte }

// Ref returns the name of the packed bytes.
func (p *Packed) Ref() *api.CodeRef {
	hash := blake3.Sum256(p.Bytes)
	return &api.CodeRef{Hash: hash[:], Bytes: uint64(len(p.Bytes))}
}

// FromZip converts a zip file. The same files give the same bytes. The error is ErrZip if it holds
// what no launch may bring.
func FromZip(ctx context.Context, content []byte) (*Packed, error) {
	if len(content) > MaxZip {
		return nil, fmt.Errorf("%w: it has %d bytes; at most %d are taken", ErrZip, len(content), MaxZip)
	}
	source, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // such paths are refused below, by name
		return nil, fmt.Errorf("%w: %w", ErrZip, err)
	}
	if len(source.File) > maxFiles {
		return nil, fmt.Errorf("%w: it has %d entries; at most %d are taken", ErrZip, len(source.File), maxFiles)
	}
	out := &bounded{}
	// One goroutine, so that the bytes do not depend on the machine.
	compressor, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	c := &converter{archive: tar.NewWriter(compressor), left: maxPlain, seen: map[string]bool{}}
	for _, entry := range source.File {
		if err := errors.Join(ctx.Err(), c.add(entry)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(c.archive.Close(), compressor.Close()); err != nil {
		return nil, err
	}
	return &Packed{out.Bytes()}, nil
}

// bounded is a buffer with a limit.
type bounded struct{ bytes.Buffer }

// Write fails with ErrZip beyond the limit.
func (b *bounded) Write(data []byte) (int, error) {
	if b.Len()+len(data) > maxPacked {
		return 0, fmt.Errorf("%w: it takes more than %d MiB packed", ErrZip, maxPacked>>20)
	}
	return b.Buffer.Write(data)
}

// converter writes a tar archive.
type converter struct {
	archive *tar.Writer
	left    int64
	// seen says of each path so far whether it is a directory.
	seen map[string]bool
}

// add converts one entry.
func (c *converter) add(entry *zip.File) error {
	name := strings.TrimSuffix(entry.Name, "/")
	mode := entry.Mode()
	if strings.HasSuffix(entry.Name, "/") {
		mode |= fs.ModeDir
	}
	if name == "." || name == "" && mode.IsDir() {
		return nil // the directory itself
	}
	if err := c.take(name, mode.IsDir()); err != nil {
		return err
	}
	switch {
	case mode.IsDir():
		return c.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
	case mode.IsRegular():
		return c.addFile(name, mode, entry)
	case mode.Type() == fs.ModeSymlink:
		return c.addLink(name, entry)
	}
	return fmt.Errorf("%w: %.200q is no file, directory or link", ErrZip, name)
}

// take refuses paths that lie outside, that are there twice, or that go through a file.
func (c *converter) take(name string, isDir bool) error {
	if !filepath.IsLocal(name) || path.Clean(name) != name || len(name) > maxName || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: %.200q is no plain path inside its directory", ErrZip, name)
	}
	if was, found := c.seen[name]; found && !(was && isDir) {
		return fmt.Errorf("%w: %.200q is there twice", ErrZip, name)
	}
	c.seen[name] = isDir
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		was, found := c.seen[above]
		if found && !was {
			return fmt.Errorf("%w: %.200q lies below %.200q, which is no directory", ErrZip, name, above)
		}
		if found {
			return nil
		}
		c.seen[above] = true
	}
	return nil
}

// addFile converts a regular file.
func (c *converter) addFile(name string, mode fs.FileMode, entry *zip.File) error {
	content, err := c.open(name, entry)
	if err != nil {
		return err
	}
	defer content.Close()
	header := &tar.Header{Name: name, Size: int64(entry.UncompressedSize64), Mode: 0o644}
	if mode&0o100 != 0 {
		header.Mode = 0o755
	}
	if err := c.archive.WriteHeader(header); err != nil {
		return fmt.Errorf("%w: %.200q: %w", ErrZip, name, err)
	}
	// The reader ends with an error if the size or the sum is not what the entry says.
	if _, err := io.Copy(c.archive, content); err != nil {
		return fmt.Errorf("%w: %.200q: %w", ErrZip, name, err)
	}
	return nil
}

// open opens an entry whose bytes are still allowed.
func (c *converter) open(name string, entry *zip.File) (io.ReadCloser, error) {
	if entry.UncompressedSize64 > uint64(c.left) {
		return nil, fmt.Errorf("%w: it unpacks to more than %d MiB", ErrZip, int64(maxPlain)>>20)
	}
	c.left -= int64(entry.UncompressedSize64)
	if entry.Flags&1 != 0 {
		return nil, fmt.Errorf("%w: %.200q is encrypted", ErrZip, name)
	}
	content, err := entry.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %.200q: %w", ErrZip, name, err)
	}
	return content, nil
}

// addLink converts a symbolic link, whose target is its content.
func (c *converter) addLink(name string, entry *zip.File) error {
	if entry.UncompressedSize64 > maxName {
		return fmt.Errorf("%w: %.200q is a link of %d bytes", ErrZip, name, entry.UncompressedSize64)
	}
	content, err := c.open(name, entry)
	if err != nil {
		return err
	}
	defer content.Close()
	target, err := io.ReadAll(io.LimitReader(content, maxName+1))
	if err != nil || len(target) == 0 || bytes.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("%w: %.200q is a link to nothing", ErrZip, name)
	}
	return c.archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeSymlink, Name: name, Linkname: string(target), Mode: 0o777,
	})
}
