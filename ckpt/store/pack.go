package store

import (
	"os"

	"github.com/phos-gpu/phos/ckpt/image"
	"golang.org/x/sys/unix"
)

// newPack makes an empty pack.
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
