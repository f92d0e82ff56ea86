package savedfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// Open opens a regular file by its path below a root, with a user's rights, and follows no
// link.
func Open(as fsuid.Rights, root *rootdir.Root, path string) (file *os.File, info os.FileInfo, err error) {
	err = as.Do(func() (err error) {
		file, err = root.Open(path, unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY,
			Resolve: unix.RESOLVE_NO_SYMLINKS,
		})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: not a regular file", path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// Content returns the saved content of a file.
func Content(reader *contents.Reader, saved image.SavedFile) (io.Reader, error) {
	hash, err := image.ParseHash(saved.Hash)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", saved.Path, err)
	}
	entry := image.Entry{Kind: image.File, Name: saved.Path, Bytes: saved.Bytes}
	switch {
	case saved.Bytes > image.ChunkBytes:
		tree, err := reader.Tree(hash)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", saved.Path, err)
		}
		if len(tree.Entries) != 1 || tree.Entries[0].Kind != image.File || tree.Entries[0].Bytes != saved.Bytes {
			return nil, fmt.Errorf("file %s: %w: unexpected tree", saved.Path, image.ErrMalformed)
		}
		entry = tree.Entries[0]
	case saved.Bytes > 0:
		entry.Chunks = []image.Chunk{{Bytes: uint32(saved.Bytes), Hash: hash}}
	}
	return io.NewSectionReader(reader.Open(entry), 0, int64(saved.Bytes)), nil
}

// Hash returns the hash that an image has for this content.
func Hash(name string, content io.Reader, bytes uint64) (string, error) {
	entry := image.Entry{Kind: image.File, Name: name, Bytes: bytes}
	buffer := make([]byte, image.ChunkBytes)
	for at := uint64(0); at < bytes; {
		piece := buffer[:min(uint64(len(buffer)), bytes-at)]
		if _, err := io.ReadFull(content, piece); err != nil {
			return "", err
		}
		entry.Chunks = append(entry.Chunks, image.Chunk{Address: at, Bytes: uint32(len(piece)), Hash: image.Sum(piece)})
		at += uint64(len(piece))
	}
	switch len(entry.Chunks) {
	case 0:
		return image.Hash{}.String(), nil
	case 1:
		return entry.Chunks[0].Hash.String(), nil
	}
	tree := image.Tree{Entries: []image.Entry{entry}}
	encoded, err := tree.Encode()
	return image.Sum(encoded).String(), err
}
