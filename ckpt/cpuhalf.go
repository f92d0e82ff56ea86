package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
)

// write puts what CRIU has written into the image. An entry is called ROOT/FILE by the pid of its tree's root.
func (v *saving) write(ctx context.Context) error {
	if len(v.work) == 0 {
		return nil
	}
	v.gauge.phase(Step{Phase: "write"})
	tree := &image.Tree{}
	for i, work := range v.work {
		entries, err := v.putDirectory(ctx, work.Descriptor(), v.trees[i].Processes[0])
		if err != nil {
			return fmt.Errorf("write the processes: %w", err)
		}
		tree.Entries = append(tree.Entries, entries...)
	}
	slices.SortFunc(tree.Entries, func(a, b image.Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, entry := range tree.Entries {
		v.cpu.Bytes += entry.Bytes
	}
	hash, err := v.image.writer.PutTree(ctx, tree)
	if err != nil {
		return fmt.Errorf("write the processes: %w", err)
	}
	v.cpu.Tree = hash.String()
	// What lies in memory is not needed any longer.
	return v.clear()
}

// putDirectory stores the files of one private directory.
func (v *saving) putDirectory(ctx context.Context, dir *os.File, root Process) ([]image.Entry, error) {
	names, err := namesIn(dir)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var entries []image.Entry
	var work []func(context.Context) error
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			continue
		}
		work = append(work, func(ctx context.Context) error {
			file, err := openPlain(dir, name, root.UID)
			if err != nil {
				return err
			}
			defer file.Close()
			entry, err := v.image.writer.PutFile(ctx, strconv.Itoa(root.PID)+"/"+name, file)
			mu.Lock()
			defer mu.Unlock()
			entries = append(entries, entry)
			return err
		})
	}
	return entries, parallel(ctx, work...)
}

func namesIn(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return dir.Readdirnames(-1)
}

// openPlain opens what CRIU wrote as its user: a file of that user's, or of root's, and nothing that only points to one.
func openPlain(dir *os.File, name string, uid uint32) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	var info unix.Stat_t
	err = unix.Fstat(fd, &info)
	if err == nil && (info.Mode&unix.S_IFMT != unix.S_IFREG || info.Nlink != 1 || info.Uid != uid && info.Uid != 0) {
		err = errNotPlain
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "open", Path: name, Err: err}, file.Close())
	}
	return file, nil
}

// errNotPlain means that something in a private directory was not put there by CRIU.
var errNotPlain = errors.New("not a plain file of its user")

func emptyDirectory(dir *os.File) error {
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil {
			return &os.PathError{Op: "remove", Path: name, Err: err}
		}
	}
	return nil
}

// commit names everything, seals it, and makes it last.
func (v *saving) commit(ctx context.Context) error {
	if err := v.image.writer.Close(); err != nil {
		return err
	}
	stats := v.image.writer.Stats()
	m := &v.order.Manifest
	m.Version = image.Version
	m.Generation = v.image.transaction.Generation()
	m.Created = time.Now().UTC()
	root := v.trees[0].Processes[0]
	groups, err := root.Groups()
	if err != nil {
		return err
	}
	m.Owner.UID, m.Owner.GID, m.Owner.Groups = root.UID, root.GID, groups
	m.CPU = image.CPUHalf{Tree: v.cpu.Tree, Bytes: v.cpu.Bytes, CRIU: m.CPU.CRIU}
	m.Files = v.files
	m.Processes, m.Endpoints = v.described()
	m.Stats = image.Stats{
		PauseMicroseconds: uint64(v.pause.Microseconds()), WrittenBytes: stats.StoredBytes, SharedBytes: stats.SharedBytes,
	}
	for _, half := range v.halves {
		m.Stats.WrittenBytes += half.WrittenBytes
		m.Stats.SharedBytes += half.SharedBytes
	}
	return v.image.commit(ctx, m)
}

// described are the processes and the outside ends of all trees; ends are numbered anew, because each tree counts from 1.
func (v *saving) described() (processes []image.Process, endpoints []image.Endpoint) {
	for _, tree := range v.trees {
		for _, p := range tree.Processes {
			described := image.Process{PID: p.PID, Parent: p.Parent, Command: p.Command, Threads: p.Threads}
			if p.Inner != p.PID {
				described.Inner = p.Inner
			}
			if half, found := v.halves[p.PID]; found {
				half.Library = p.Library
				described.GPU = &half
			}
			processes = append(processes, described)
		}
		for _, end := range tree.Endpoints {
			end.ID = uint32(len(endpoints)) + 1
			endpoints = append(endpoints, end)
		}
	}
	return processes, endpoints
}

// unpack writes the files of one tree's processes into a private directory, verified.
func unpack(ctx context.Context, reader *store.Reader, hash string, into *os.File, root int) error {
	name, err := image.ParseHash(hash)
	if err != nil {
		return err
	}
	tree, err := reader.Tree(name)
	if err != nil {
		return err
	}
	prefix := strconv.Itoa(root) + "/"
	var work []func(context.Context) error
	for _, entry := range tree.Entries {
		file, mine := strings.CutPrefix(entry.Name, prefix)
		if !mine {
			continue
		}
		if entry.Kind != image.File || file == "" || file[0] == '.' || strings.ContainsAny(file, "/\x00") {
			return fmt.Errorf("%w: %q cannot be a file of CRIU's", image.ErrMalformed, entry.Name)
		}
		work = append(work, func(ctx context.Context) error {
			return unpackFile(ctx, reader, entry, into, file)
		})
	}
	return parallel(ctx, work...)
}

func unpackFile(ctx context.Context, reader *store.Reader, entry image.Entry, into *os.File, name string) error {
	var owner unix.Stat_t
	if err := unix.Fstat(int(into.Fd()), &owner); err != nil {
		return err
	}
	fd, err := unix.Openat(int(into.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "unpack", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	err = reader.Copy(ctx, entry, file)
	if err := errors.Join(err, file.Chown(int(owner.Uid), int(owner.Gid)), file.Close()); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return nil
}
