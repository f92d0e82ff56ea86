package ckpt

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// saveFiles saves the files that the frozen trees have open for writing, and the libraries that
// they have mapped. A disk that hangs must not keep the programs paused for longer than a dump may
// take: saveFiles then fails, and the attempt is abandoned.
func (c *checkpoint) saveFiles(ctx context.Context) error {
	if len(c.order.Manifest.Kinds) > 0 {
		return nil
	}
	limit := c.dumpTime(c.trees[0])
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	attempt := &filesAttempt{checkpoint: c, writer: c.image, trees: c.trees}
	err := runAbandonable(limited, attempt.saveAll)
	if errors.Is(err, errDiskHangs) {
		err = errDiskHangs
	}
	switch {
	case err == nil:
		c.files = attempt.files
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return &DeadlineError{"files of the program were not saved", limit, err}
	}
	return err
}

// filesAttempt is one attempt to save the files. It has its own state, because it may go on after
// the checkpoint has abandoned it.
type filesAttempt struct {
	*checkpoint
	writer *imageWriter
	trees  []*Tree
	files  []image.SavedFile
}

// saveAll saves the files. It opens them with the rights of the process that uses them: a user's
// image must not contain what that user cannot read.
func (a *filesAttempt) saveAll(ctx context.Context) error {
	written := mergeWritten(a.trees)
	saved := make(map[string]bool)
	for _, tree := range a.trees {
		as, err := rightsOf(tree.Processes[0])
		if err != nil {
			return err
		}
		for _, file := range tree.Written {
			if saved[file.Path] {
				continue
			}
			saved[file.Path] = true
			if err := a.saveWritten(ctx, as, tree.Processes[0].Identity, written[file.Path]); err != nil {
				return err
			}
		}
		for _, p := range tree.Processes {
			if p.Library == "" || saved[p.Library] {
				continue
			}
			saved[p.Library] = true
			if err := a.saveLibrary(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeWritten returns how all trees together use each file, by path.
func mergeWritten(trees []*Tree) map[string]WrittenFile {
	merged := make(map[string]WrittenFile)
	for _, tree := range trees {
		for _, file := range tree.Written {
			if other, ok := merged[file.Path]; ok {
				file.Append = file.Append && other.Append
				file.Mapped = file.Mapped || other.Mapped
				file.Lock = proc.StrongerLock(file.Lock, other.Lock)
				file.Bytes = max(file.Bytes, other.Bytes)
			}
			merged[file.Path] = file
		}
	}
	return merged
}

// rightsOf returns the rights of a process to files.
func rightsOf(p Process) (fsuid.Rights, error) {
	groups, err := p.Groups()
	return fsuid.Rights{UID: p.UID, GID: p.GID, Groups: groups}, err
}

// saveWritten saves a file that the tree has open for writing, unless it is too large or
// unreadable.
func (a *filesAttempt) saveWritten(ctx context.Context, as fsuid.Rights, place proc.Identity, written WrittenFile) error {
	root, err := rootdir.Of(place)
	if err != nil {
		return err
	}
	defer root.Close()
	file, info, err := savedfile.Open(as, root, written.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // deleted while open; CRIU saves it
	case errors.Is(err, fs.ErrPermission):
		a.notice(fmt.Sprintf("file %s: content not saved: its user may write but not read it", written.Path))
		a.files = append(a.files, image.SavedFile{
			Path: written.Path, Bytes: uint64(max(written.Bytes, 0)), Cut: cutOf(written, nil),
		})
		return nil
	case err != nil:
		return err
	}
	defer file.Close()
	saved := image.SavedFile{Path: written.Path, Bytes: uint64(info.Size()), Mode: uint32(info.Mode().Perm())}
	saved.Cut = cutOf(written, info)
	if saved.Bytes > a.order.FileBytes {
		a.notice(
			fmt.Sprintf(
				"file %s: its %d bytes are more than are saved; a restore cuts it to that length",
				written.Path,
				saved.Bytes,
			),
		)
		a.files = append(a.files, saved)
		return nil
	}
	if err := a.putFile(ctx, saved, file); err != nil {
		return err
	}
	// Another program may have written the file while it was read.
	if now, err := file.Stat(); err != nil || *cutOf(written, now) != *saved.Cut {
		saved.Cut.Modified, saved.Cut.Changed = 0, 0
	}
	return nil
}

// distinctTime is how old the times of a file must be to tell later changes: some file systems
// count in seconds.
const distinctTime = 3 * time.Second

// cutOf returns what a later restore compares. info is nil if the file could not be opened.
func cutOf(written WrittenFile, info os.FileInfo) *image.FileCut {
	cut := &image.FileCut{Append: written.Append, Mapped: written.Mapped, Lock: written.Lock}
	if info == nil {
		return cut
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return cut
	}
	cut.Inode = stat.Ino
	distinct := time.Now().Add(-distinctTime).UnixNano()
	if modified, changed := stat.Mtim.Nano(), stat.Ctim.Nano(); max(modified, changed) < distinct {
		cut.Modified, cut.Changed = modified, changed
	}
	return cut
}

// saveLibrary saves the file that a process has mapped, even if its path holds another file now.
func (a *filesAttempt) saveLibrary(ctx context.Context, p Process) error {
	file, err := openMapped(p)
	if err != nil {
		return fmt.Errorf("library of pid %d: %w", p.PID, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := ReadLibrary(io.NewSectionReader(file, 0, MaxLibraryBytes+1)); errors.Is(err, ErrNotLibrary) {
		a.notice(fmt.Sprintf("file %s: content not saved: %v", p.Library, err))
		return nil
	} else if err != nil {
		return fmt.Errorf("library of pid %d: %w", p.PID, err)
	}
	return a.putFile(
		ctx,
		image.SavedFile{Path: p.Library, Bytes: uint64(info.Size()), Mode: uint32(info.Mode().Perm()), Library: true},
		file,
	)
}

func (a *filesAttempt) putFile(ctx context.Context, saved image.SavedFile, content io.Reader) error {
	// The process that writes this file is frozen, but other programs may make it grow.
	entry, err := a.writer.writer.PutFile(ctx, saved.Path, io.LimitReader(content, int64(saved.Bytes)))
	if err != nil {
		return fmt.Errorf("save %s: %w", saved.Path, err)
	}
	saved.Bytes = entry.Bytes
	if saved.Hash, err = a.writer.putWhole(ctx, entry); err != nil {
		return fmt.Errorf("save %s: %w", saved.Path, err)
	}
	a.files = append(a.files, saved)
	return nil
}

// openMapped opens a file through one of its mappings.
func openMapped(p Process) (*os.File, error) {
	for m, err := range proc.EachMapping(p.PID) {
		if err != nil {
			return nil, err
		}
		if strings.TrimSuffix(m.Path, " (deleted)") == p.Library {
			return os.Open(m.File(p.PID))
		}
	}
	return nil, fmt.Errorf("%s is not mapped: %w", p.Library, fs.ErrNotExist)
}

// MaxLibraryBytes is the most that a libphos.so can have. It has some 1.5 MiB.
const MaxLibraryBytes = 8 << 20

// ErrNotLibrary is returned for a file that is not a libphos.so.
var ErrNotLibrary = errors.New("not a libphos.so of phos")

// ReadLibrary reads a libphos.so, of whatever version. A program may call any file so: what is
// neither small nor a library that stands for the driver and knows phosd's socket is an error.
func ReadLibrary(content io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(content, MaxLibraryBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxLibraryBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrNotLibrary, MaxLibraryBytes)
	}
	file, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotLibrary, err)
	}
	names, err := file.DynString(elf.DT_SONAME)
	if err != nil || !slices.Contains(names, "libcuda.so.1") || !bytes.Contains(text, []byte("PHOS_SOCKET")) {
		return nil, ErrNotLibrary
	}
	return text, nil
}
