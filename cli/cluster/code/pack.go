package code

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/cluster/api"
)

// DefaultLimit is the most bytes that a packed directory may have unless the caller says otherwise.
const DefaultLimit = 50 << 20

// maxPlain is how many bytes a node unpacks.
const maxPlain = 8 << 30

// ErrTooLarge means that a directory is too large to be sent.
var ErrTooLarge = errors.New("the directory is too large")

// ErrChanged means that a file became shorter while it was packed.
var ErrChanged = errors.New("a file became shorter while it was packed; start the launch again")

// Packed is a packed directory.
type Packed struct {
	Bytes []byte
	// Files is how many files and links it has.
	Files int
	// Skipped are paths that are no files, directories or links.
	Skipped []string
}

// Ref returns the name of the packed bytes.
func (p *Packed) Ref() *api.CodeRef {
	hash := blake3.Sum256(p.Bytes)
	return &api.CodeRef{Hash: hash[:], Bytes: uint64(len(p.Bytes))}
}

// Pack packs a directory. The error is ErrTooLarge if that takes more bytes than limit.
func Pack(ctx context.Context, dir string, limit int) (*Packed, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory of the launch: %w", err)
	}
	defer root.Close()
	names, err := list(ctx, root)
	if err != nil {
		return nil, err
	}
	out := &bounded{limit: limit}
	// One goroutine, so that the bytes do not depend on the machine.
	compressor, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	p := &packer{root: root, archive: tar.NewWriter(compressor)}
	for _, name := range names {
		if err = errors.Join(ctx.Err(), p.add(name)); err != nil {
			break
		}
	}
	if err == nil {
		err = errors.Join(p.archive.Close(), compressor.Close())
	}
	if errors.Is(err, ErrTooLarge) {
		return nil, fmt.Errorf("%w: it takes more than %d MiB packed; %s; leave files out with a .phosignore",
			ErrTooLarge, limit>>20, largest(root, names))
	}
	return &Packed{Bytes: out.Bytes(), Files: p.files, Skipped: p.skipped}, err
}

// bounded is a buffer with a limit.
type bounded struct {
	bytes.Buffer
	limit int
}

// Write fails with ErrTooLarge beyond the limit.
func (b *bounded) Write(data []byte) (int, error) {
	if b.Len()+len(data) > b.limit {
		return 0, ErrTooLarge
	}
	return b.Buffer.Write(data)
}

// packer writes an archive.
type packer struct {
	root    *os.Root
	archive *tar.Writer
	plain   int64
	files   int
	skipped []string
}

// add adds a path. One that has gone since it was listed is left out.
func (p *packer) add(name string) error {
	info, err := p.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pack the directory: %w", err)
	}
	switch mode := info.Mode(); {
	case !kept(mode):
		p.skipped = append(p.skipped, name)
		return nil
	case mode.IsDir():
		return p.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
	case mode.IsRegular():
		return p.addFile(name)
	}
	target, err := p.root.Readlink(name)
	if err != nil {
		return fmt.Errorf("pack the directory: %w", err)
	}
	p.files++
	return p.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
}

// addFile adds the bytes that a file has now. What is appended later is left out.
func (p *packer) addFile(name string) error {
	file, info, err := openRegular(p.root, name)
	if err != nil {
		return fmt.Errorf("pack the directory: %w", err)
	}
	defer file.Close()
	if p.plain += info.Size(); p.plain > maxPlain {
		return ErrTooLarge
	}
	p.files++
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	if err := p.archive.WriteHeader(&tar.Header{Name: name, Size: info.Size(), Mode: mode}); err != nil {
		return fmt.Errorf("pack %.200q: %w", name, err)
	}
	if _, err = io.CopyN(p.archive, file, info.Size()); errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %.200q", ErrChanged, name)
	}
	return err
}
