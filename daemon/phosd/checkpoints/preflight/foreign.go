package preflight

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/bounded"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// Foreign finds programs and libraries that are missing here, or differ from those that the
// processes were running. They are looked up below a root, with the user's rights.
func Foreign(needed []ckpt.NeededFile, m *image.Manifest, root *rootdir.Root) (found []ckpt.Obstacle) {
	as := fsuid.Rights{UID: m.Owner.UID, GID: m.Owner.GID, Groups: m.Owner.Groups}
	seen := make(map[string]bool)
	for _, file := range needed {
		kept := slices.ContainsFunc(
			m.Files,
			func(saved image.SavedFile) bool { return saved.Library && saved.Path == file.Path },
		)
		if kept || seen[file.Path] {
			continue
		}
		seen[file.Path] = true
		here, err := buildIDWithin(as, root, file.Path)
		switch {
		case errors.Is(err, fs.ErrPermission):
			// It may be executable and not readable.
		case err != nil:
			found = append(found, ckpt.Obstacle{
				Subject: "file " + file.Path, Reason: fmt.Sprintf("the program was running it, and here: %v", err), Remedy: "install it here",
			})
		case !bytes.Equal(here, file.BuildID):
			found = append(found, ckpt.Obstacle{
				Subject: "file " + file.Path, Reason: fmt.Sprintf("it differs from the one that the program was running (build id %x, and here %x)", file.BuildID, here),
				Remedy: "install the same version here",
			})
		}
	}
	return found
}

// buildIDWithin is buildIDAt with a time limit.
func buildIDWithin(as fsuid.Rights, root *rootdir.Root, path string) (id []byte, err error) {
	type result struct {
		id  []byte
		err error
	}
	got, err := bounded.Call(bounded.Question{UID: as.UID, Of: root.Key(path)}, bounded.FileTime, func() (r result) {
		r.id, r.err = buildIDAt(as, root, path)
		return r
	})
	if err != nil {
		return nil, err
	}
	return got.id, got.err
}

// buildIDAt returns the build ID of a regular file that it opens with the rights of as.
func buildIDAt(as fsuid.Rights, root *rootdir.Root, path string) (id []byte, err error) {
	var file *os.File
	if err := as.Do(func() (err error) {
		file, err = root.Open(path, unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY})
		return err
	}); err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return buildID(file), nil
}

// The ELF format: sizes, offsets, and the note with the build ID.
const (
	elfHeaderBytes  = 64
	elfWide         = "\x7fELF\x02\x01"
	segmentBytes    = 56
	segmentOfNotes  = 4
	maxSegments     = 512
	maxNoteBytes    = 64 << 10
	noteHeaderBytes = 12
	noteOfBuildID   = 3
	noteOwner       = "GNU\x00"
)

// buildID returns the build ID in an executable's notes, padded to whole words; nil if there is
// none.
func buildID(file io.ReaderAt) []byte {
	order := binary.LittleEndian
	header := make([]byte, elfHeaderBytes)
	if _, err := file.ReadAt(header, 0); err != nil || string(header[:len(elfWide)]) != elfWide {
		return nil
	}
	at, count := order.Uint64(header[32:]), min(int(order.Uint16(header[56:])), maxSegments)
	if order.Uint16(header[54:]) != segmentBytes || at > 1<<40 {
		return nil
	}
	segments := make([]byte, count*segmentBytes)
	if _, err := file.ReadAt(segments, int64(at)); err != nil {
		return nil
	}
	for segment := range slices.Chunk(segments, segmentBytes) {
		from, bytes := order.Uint64(segment[8:]), order.Uint64(segment[32:])
		if order.Uint32(segment) != segmentOfNotes || from > 1<<40 || bytes > maxNoteBytes {
			continue
		}
		notes := make([]byte, bytes)
		if _, err := file.ReadAt(notes, int64(from)); err != nil {
			continue
		}
		if id := buildIDIn(notes); id != nil {
			return id
		}
	}
	return nil
}

// buildIDIn finds the build ID in notes, whose parts are padded to four bytes.
func buildIDIn(notes []byte) []byte {
	order := binary.LittleEndian
	for len(notes) >= noteHeaderBytes {
		owner, text := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:]))
		begins := noteHeaderBytes + whole(owner)
		ends := begins + whole(text)
		if ends > uint64(len(notes)) {
			return nil
		}
		if order.Uint32(notes[8:]) == noteOfBuildID &&
			string(notes[noteHeaderBytes:noteHeaderBytes+owner]) == noteOwner {
			return slices.Clone(notes[begins:ends])
		}
		notes = notes[ends:]
	}
	return nil
}

// whole rounds up to four bytes.
func whole(bytes uint64) uint64 { return (bytes + 3) &^ 3 }
