package savedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/bounded"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// Change says how a file differs from what the checkpoint left. The values are in the output of
// image check --json.
type Change string

// The changes. Grown means that all old bytes are there, and more. Replaced means that another file
// has the name now. Unknown means that the file system does not answer.
const (
	Unchanged Change = "unchanged"
	Missing   Change = "missing"
	Grown     Change = "grown"
	Modified  Change = "modified"
	Replaced  Change = "replaced"
	Unknown   Change = "unknown"
)

// state is a file as it is now.
type state struct {
	change Change
	found
	// failure says why a restore can neither write nor keep the file.
	failure error
	// unread is set if the user may not read the file.
	unread bool
}

// found is what the kernel says of a file.
type found struct {
	stat unix.Stat_t
	// system is the type of the file system.
	system int64
	// mount and inode are those of proc.Info.
	mount, inode uint64
}

// isChanged reports whether the file has other content than the checkpoint left.
func (s *state) isChanged() bool { return s.change != Unchanged && s.change != Missing }

// slowestRate is how many bytes of a file are read in a second, at least.
const slowestRate = 4 << 20

// compareWithin is compare with a time limit.
func compareWithin(o Options, saved image.SavedFile) (state, error) {
	type result struct {
		state
		err error
	}
	limit := o.limit(bounded.FileTime) + time.Duration(saved.Bytes/slowestRate)*time.Second
	got, err := bounded.Call(o.question(saved.Path), limit, func() (r result) {
		r.state, r.err = compare(o, saved)
		return r
	})
	if err != nil {
		return state{change: Unknown, failure: err}, nil
	}
	return got.state, got.err
}

// compare compares a file with what the checkpoint left of it, with the rights of its user.
func compare(o Options, saved image.SavedFile) (now state, err error) {
	now.found, err = statBelow(o.As, o.Root, saved.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state{change: Missing}, nil
	case err != nil:
		return state{change: Replaced, failure: err}, nil
	case now.stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return state{change: Replaced, failure: errors.New("is not a regular file any longer")}, nil
	case !o.CompareContent && now.timesCount(saved) && sameTimes(&now.stat, saved):
		now.change = Unchanged
		return now, nil
	}
	now.change, err = compareContent(o, saved, &now)
	if now.change == Modified && saved.Cut != nil && saved.Cut.Inode != 0 && saved.Cut.Inode != now.stat.Ino {
		now.change = Replaced
	}
	return now, err
}

// diskSystems are the file systems whose times change with the content, except for writes through
// mappings. Others keep no times for mapped memory (tmpfs), or cache what a server has.
var diskSystems = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC}

// timesCount reports whether equal times mean that the file was not written. They may be wrong if
// another program had the file mapped at the checkpoint. A restore compares the content again
// before it writes.
func (s *state) timesCount(saved image.SavedFile) bool {
	return saved.Cut != nil && !saved.Cut.Mapped && slices.Contains(diskSystems, s.system)
}

// sameTimes reports whether a file is the one that was saved, with the same size and times.
func sameTimes(now *unix.Stat_t, saved image.SavedFile) bool {
	cut := saved.Cut
	return cut != nil && cut.Modified != 0 && cut.Inode == now.Ino && int64(saved.Bytes) == now.Size &&
		cut.Modified == now.Mtim.Nano() && cut.Changed == now.Ctim.Nano()
}

// compareContent compares the content, or, if it was not saved or may not be read, the sizes.
func compareContent(o Options, saved image.SavedFile, now *state) (Change, error) {
	file, _, err := Open(o.As, o.Root, saved.Path)
	if errors.Is(err, fs.ErrPermission) {
		now.unread = true
	} else if err != nil {
		return Modified, fmt.Errorf("compare %s with the image: %w", saved.Path, err)
	} else {
		defer file.Close()
		// The state that is remembered is the one before the content was read.
		if err := unix.Fstat(int(file.Fd()), &now.stat); err != nil {
			return Modified, fmt.Errorf("compare %s with the image: %w", saved.Path, err)
		}
	}
	old := int64(saved.Bytes)
	switch {
	case now.stat.Size < old:
		return Modified, nil
	case saved.Hash != "" && now.unread:
		return Modified, nil
	case saved.Hash != "":
		hash, err := Hash(saved.Path, io.LimitReader(file, old), saved.Bytes)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return Modified, nil // it has just become shorter
		}
		if err != nil {
			return Modified, fmt.Errorf("compare %s with the image: %w", saved.Path, err)
		}
		if hash != saved.Hash {
			return Modified, nil
		}
	}
	switch {
	case now.stat.Size > old:
		return Grown, nil
	case saved.Hash == "" && saved.Cut != nil && saved.Cut.Modified != 0 && !sameTimes(&now.stat, saved):
		return Modified, nil // nothing but its times tells
	}
	return Unchanged, nil
}

// statBelow returns what the kernel says of a file below a root. It follows no link.
func statBelow(as fsuid.Rights, root *rootdir.Root, path string) (f found, err error) {
	var opened *os.File
	err = as.Do(func() (err error) {
		opened, err = root.Open(path, unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW})
		return err
	})
	if err != nil {
		return f, err
	}
	defer opened.Close()
	file := int(opened.Fd())
	var system unix.Statfs_t
	if err := errors.Join(unix.Fstat(file, &f.stat), unix.Fstatfs(file, &system)); err != nil {
		return f, err
	}
	info, err := proc.ReadInfo(os.Getpid(), file)
	f.system, f.mount, f.inode = system.Type, info.Mount, info.Inode
	if f.inode == 0 {
		f.inode = f.stat.Ino
	}
	return f, err
}
