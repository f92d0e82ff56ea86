package ckpt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
)

// write puts CRIU's files into the image. An entry is named ROOT/FILE, where ROOT is the pid of the
// tree's root.
func (c *checkpoint) write(ctx context.Context) error {
	if len(c.workDirs) == 0 {
		return nil
	}
	c.progress.phase("write")
	tree, written := &image.Tree{}, &counted{progress: c.progress}
	written.now.Phase = "write"
	for i, work := range c.workDirs {
		base, err := c.overlay(ctx, work.Descriptor(), c.trees[i].Processes[0])
		if err != nil {
			return fmt.Errorf("write processes: %w", err)
		}
		tree.Entries = append(tree.Entries, base...)
		bytes, err := dumpedBytes(work.Descriptor())
		if err != nil {
			return fmt.Errorf("write processes: %w", err)
		}
		written.now.TotalBytes += bytes
	}
	for i, work := range c.workDirs {
		entries, err := c.putTree(ctx, work.Descriptor(), c.trees[i].Processes[0], written)
		if err != nil {
			return fmt.Errorf("write processes: %w", err)
		}
		tree.Entries = append(tree.Entries, entries...)
	}
	slices.SortFunc(tree.Entries, func(a, b image.Entry) int { return strings.Compare(a.Name, b.Name) })
	for _, entry := range tree.Entries {
		c.cpu.Bytes += entry.Bytes
	}
	hash, err := c.image.writer.PutTree(ctx, tree)
	if err != nil {
		return fmt.Errorf("write processes: %w", err)
	}
	c.cpu.Tree, c.cpu.CRIU = hash.String(), c.trees[0].CRIU
	// Free files that lie in memory as early as possible.
	return c.removeWork()
}

// putTree stores the files of one tree: those of the dump and those of the precopy.
func (c *checkpoint) putTree(ctx context.Context, dir *os.File, root Process, written *counted) ([]image.Entry, error) {
	prefix := strconv.Itoa(root.PID) + "/"
	entries, err := c.putDirectory(ctx, dir, root.UID, prefix, written)
	if err != nil {
		return nil, err
	}
	earlier, err := OpenParentImages(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return entries, nil
	}
	if err != nil {
		return nil, err
	}
	defer earlier.Close()
	more, err := c.putDirectory(ctx, earlier, root.UID, prefix+ParentImages+"/", written)
	return append(entries, more...), err
}

// overlay leaves pages out of the images of a precopy that the generation before has, and returns
// the entries of that generation which are needed for it.
func (c *checkpoint) overlay(ctx context.Context, dir *os.File, root Process) (base []image.Entry, err error) {
	overlayer, ok := c.order.CPU.(Overlayer)
	if !ok {
		return nil, nil
	}
	earlier, err := OpenParentImages(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer earlier.Close()
	older, err := c.image.older(root.PID)
	if err != nil { // a damaged generation is no reason to save nothing
		c.steps.log.Warn("cannot compare with the generation before", "pid", root.PID, "error", err)
		return nil, nil
	}
	needed, err := overlayer.Overlay(ctx, earlier, older)
	for name, entry := range needed {
		entry.Name = strconv.Itoa(root.PID) + "/" + ParentImages + "/" + name
		base = append(base, entry)
		c.sharedBytes += entry.Bytes
	}
	return base, err
}

// putDirectory stores the files of one private directory.
func (c *checkpoint) putDirectory(
	ctx context.Context,
	dir *os.File,
	uid uint32,
	prefix string,
	written *counted,
) ([]image.Entry, error) {
	names, err := namesIn(dir)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var entries []image.Entry
	var work []func(context.Context) error
	for _, name := range names {
		if !isDumped(name) {
			continue
		}
		work = append(work, func(ctx context.Context) error {
			file, err := openPlain(dir, name, uid)
			if err != nil {
				return err
			}
			defer file.Close()
			entry, err := c.image.writer.PutFile(ctx, prefix+name, written.reader(file))
			mu.Lock()
			defer mu.Unlock()
			entries = append(entries, entry)
			return err
		})
	}
	return entries, pool.Run(ctx, work...)
}

// isDumped reports whether a file of a private directory belongs to the image.
func isDumped(name string) bool { return !strings.HasSuffix(name, ".log") && name != ParentImages }

// dumpedBytes returns the size of the files that a work directory gives to the image.
func dumpedBytes(dir *os.File) (uint64, error) {
	bytes, err := filesBytes(dir)
	if err != nil {
		return 0, err
	}
	earlier, err := OpenParentImages(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return bytes, nil
	}
	if err != nil {
		return 0, err
	}
	defer earlier.Close()
	more, err := filesBytes(earlier)
	return bytes + more, err
}

// filesBytes returns the size of the files that one private directory gives to the image.
func filesBytes(dir *os.File) (bytes uint64, err error) {
	names, err := namesIn(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return !isDumped(name) }) {
		var info unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), name, &info, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return 0, &os.PathError{Op: "stat", Path: name, Err: err}
		}
		bytes += uint64(info.Size)
	}
	return bytes, nil
}

// commit completes the manifest, seals it and commits the transaction.
func (c *checkpoint) commit(ctx context.Context) error {
	if err := c.image.writer.Close(); err != nil {
		return err
	}
	stats := c.image.writer.Stats()
	m := &c.order.Manifest
	m.Version = image.Version
	m.Generation = c.image.transaction.Generation()
	m.Created = time.Now().UTC()
	root := c.trees[0].Processes[0]
	m.Owner.UID, m.Owner.GID, m.Owner.Groups = root.UID, root.GID, c.groups
	m.CPU = c.cpu
	m.Files = c.files
	m.Processes, m.Endpoints = c.describe()
	if c.order.Stop {
		c.pause = time.Since(c.lastPause) // the program ends right after this
	}
	m.Stats = image.Stats{
		PauseMicroseconds: uint64(
			c.pause.Microseconds(),
		), WrittenBytes: stats.StoredBytes, SharedBytes: stats.SharedBytes,
	}
	if !c.order.Stop {
		m.Stats.PausedMicroseconds = make(map[string]uint64)
		for name, each := range c.timing.longest {
			m.Stats.PausedMicroseconds[name] = uint64(each.Microseconds())
		}
	}
	m.Stats.SharedBytes += c.sharedBytes
	for _, half := range c.halves {
		m.Stats.WrittenBytes += half.WrittenBytes
		m.Stats.SharedBytes += half.SharedBytes
	}
	// Flush may take long, so it must end with the context: a stopped program may have to be
	// resumed.
	if err := runAbandonable(ctx, c.image.transaction.Flush); err != nil {
		return err
	}
	return c.image.commit(ctx, m)
}

// describe returns the processes and the outside ends of all trees. Ends are numbered again,
// because each tree counts from 1.
func (c *checkpoint) describe() (processes []image.Process, endpoints []image.Endpoint) {
	for _, tree := range c.trees {
		c.order.Manifest.Contained = c.order.Manifest.Contained || tree.Contained
		for _, p := range tree.Processes {
			described := image.Process{PID: p.PID, Parent: p.Parent, Command: p.Command, Threads: p.Threads}
			if p.Inner != p.PID {
				described.Inner = p.Inner
			}
			if half, found := c.halves[p.PID]; found {
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
