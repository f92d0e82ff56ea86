package savedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// Change says how a file differs from what the checkpoint left. The values are in the output of
// image check --json.
type Change string

// The changes. Grown means that all old bytes are there, and more. Replaced means that another file
// has the name now.
const (
	Unchanged Change = "unchanged"
	Missing   Change = "missing"
	Grown     Change = "grown"
	Modified  Change = "modified"
	Replaced  Change = "replaced"
)

// state is a file as it is now.
type state struct {
	change Change
	stat   unix.Stat_t
	// failure says why a restore can neither write nor keep the file.
	failure error
	// unread is set if the user may not read the file.
	unread bool
}

// isChanged reports whether the file has other content than the checkpoint left.
func (s *state) isChanged() bool { return s.change != Unchanged && s.change != Missing }

// compare compares a file with what the checkpoint left of it, with the rights of its user.
func compare(root string, as fsuid.Rights, saved image.SavedFile) (now state, err error) {
	now.stat, err = statBelow(as, root, saved.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state{change: Missing}, nil
	case err != nil:
		return state{change: Replaced, failure: err}, nil
	case now.stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return state{change: Replaced, failure: errors.New("is not a regular file any longer")}, nil
	case sameTimes(&now.stat, saved):
		now.change = Unchanged
		return now, nil
	}
	now.change, err = compareContent(root, as, saved, &now)
	if now.change == Modified && saved.Cut != nil && saved.Cut.Inode != 0 && saved.Cut.Inode != now.stat.Ino {
		now.change = Replaced
	}
	return now, err
}

// sameTimes reports whether a file is the one that was saved, and was not written since.
func sameTimes(now *unix.Stat_t, saved image.SavedFile) bool {
	cut := saved.Cut
	return cut != nil && cut.Modified != 0 && cut.Inode == now.Ino && int64(saved.Bytes) == now.Size &&
		cut.Modified == now.Mtim.Nano() && cut.Changed == now.Ctim.Nano()
}

// compareContent compares the content, or, if it was not saved or may not be read, the sizes.
func compareContent(root string, as fsuid.Rights, saved image.SavedFile, now *state) (Change, error) {
	file, _, err := Open(as, root, saved.Path)
	if errors.Is(err, fs.ErrPermission) {
		now.unread = true
	} else if err != nil {
		return Modified, fmt.Errorf("compare %s with the image: %w", saved.Path, err)
	} else {
		defer file.Close()
	}
	old := int64(saved.Bytes)
	switch {
	case now.stat.Size < old:
		return Modified, nil
	case saved.Hash != "" && now.unread:
		return Modified, nil
	case saved.Hash != "":
		hash, err := Hash(saved.Path, io.LimitReader(file, old), saved.Bytes)
		if err != nil {
			return Modified, fmt.Errorf("compare %s with the image: %w", saved.Path, err)
		}
		if hash != saved.Hash {
			return Modified, nil
		}
	}
	if now.stat.Size > old {
		return Grown, nil
	}
	return Unchanged, nil
}

// statBelow returns the state of a file below a root. It follows no link.
func statBelow(as fsuid.Rights, root, path string) (stat unix.Stat_t, err error) {
	err = as.Do(func() error {
		fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		file, err := unix.Openat2(fd, path, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		defer unix.Close(file)
		return unix.Fstat(file, &stat)
	})
	return stat, err
}
