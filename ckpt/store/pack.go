package store

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
)

// newPack creates an empty pack.
func newPack(tmp folder, store image.ID) (id image.ID, file *os.File, err error) {
	id = newID()
	name := packName(id)
	if file, err = tmp.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL); err != nil {
		return id, nil, err
	}
	if _, err := file.Write(image.PackHeader{Store: store, Pack: id}.Encode()); err != nil {
		_ = file.Close()
		_ = tmp.remove(name)
		return id, nil, err
	}
	return id, file, nil
}

// diskBytes returns how much disk space a pack takes. Holes between runs and chunks take none.
func diskBytes(info os.FileInfo) uint64 {
	bytes := uint64(info.Size())
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		bytes = min(bytes, uint64(stat.Blocks)*512)
	}
	return bytes
}
