package faulty

import (
	"context"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// node is a file or a directory.
type node struct {
	fs.LoopbackNode
	disk *Disk
}

func (d *Disk) node(data *fs.LoopbackRoot) *node {
	return &node{LoopbackNode: fs.LoopbackNode{RootData: data}, disk: d}
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if failure := n.disk.before(Mkdir); failure != 0 {
		return nil, failure
	}
	return n.LoopbackNode.Mkdir(ctx, name, mode, out)
}

func (n *node) Rename(
	ctx context.Context,
	name string,
	to fs.InodeEmbedder,
	newName string,
	flags uint32,
) syscall.Errno {
	if failure := n.disk.before(Rename); failure != 0 {
		return failure
	}
	return n.LoopbackNode.Rename(ctx, name, to, newName, flags)
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	if failure := n.disk.before(Remove); failure != 0 {
		return failure
	}
	return n.LoopbackNode.Unlink(ctx, name)
}

func (n *node) Create(
	ctx context.Context,
	name string,
	flags, mode uint32,
	out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if failure := n.disk.before(Create); failure != 0 {
		return nil, nil, 0, failure
	}
	inode, file, how, failure := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, n.wrapHandle(file), how | fuse.FOPEN_DIRECT_IO, failure
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if failure := n.disk.before(Open); failure != 0 {
		return nil, 0, failure
	}
	file, _, failure := n.LoopbackNode.Open(ctx, flags)
	// Disable the page cache, so that reads reach this file system.
	return n.wrapHandle(file), fuse.FOPEN_DIRECT_IO, failure
}

func (n *node) Fsync(_ context.Context, file fs.FileHandle, flags uint32) syscall.Errno {
	if failure := n.disk.before(Sync); failure != 0 {
		return failure
	}
	if mine, ok := file.(*handle); ok {
		return mine.fileHandle.Fsync(context.Background(), flags)
	}
	return 0
}

func (n *node) Readdir(ctx context.Context) (fs.DirStream, syscall.Errno) {
	if failure := n.disk.before(List); failure != 0 {
		return nil, failure
	}
	return n.LoopbackNode.Readdir(ctx)
}

func (n *node) OpendirHandle(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if failure := n.disk.before(List); failure != 0 {
		return nil, 0, failure
	}
	return n.LoopbackNode.OpendirHandle(ctx, flags)
}

// fileHandle is the set of operations on an open file.
type fileHandle interface {
	fs.FileReader
	fs.FileWriter
	fs.FileFsyncer
	fs.FileFlusher
	fs.FileReleaser
	fs.FileGetattrer
	fs.FileSetattrer
	fs.FileLseeker
}

// handle is an open file.
type handle struct {
	fileHandle
	disk *Disk
}

// wrapHandle returns an open file whose operations fail as the disk says.
func (n *node) wrapHandle(file fs.FileHandle) fs.FileHandle {
	open, ok := file.(fileHandle)
	if !ok {
		return nil
	}
	return &handle{open, n.disk}
}

func (h *handle) Read(ctx context.Context, into []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	if failure := h.disk.before(Read); failure != 0 {
		return nil, failure
	}
	return h.fileHandle.Read(ctx, into, at)
}

func (h *handle) Write(ctx context.Context, data []byte, at int64) (uint32, syscall.Errno) {
	if failure := h.disk.before(Write); failure != 0 {
		return 0, failure
	}
	return h.fileHandle.Write(ctx, data, at)
}

// Allocate allocates space or punches holes.
func (h *handle) Allocate(ctx context.Context, at, bytes uint64, mode uint32) syscall.Errno {
	return h.fileHandle.(fs.FileAllocater).Allocate(ctx, at, bytes, mode)
}
