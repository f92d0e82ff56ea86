package archive

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// RightsOf returns a caller's rights to files.
func RightsOf(caller api.Caller) fsuid.Rights {
	return fsuid.Rights{UID: caller.UID, GID: caller.GID, Groups: caller.Groups}
}

// CheckDirectory returns an error unless the file is a directory that was opened for reading. A
// descriptor opened with O_PATH does not prove that its owner may read the directory.
func CheckDirectory(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if !info.IsDir() || flags&unix.O_PATH != 0 {
		return fmt.Errorf("%w: %s is not a directory that was opened for reading", api.ErrInvalid, file.Name())
	}
	return nil
}

// key returns this machine's key.
func (a *Archive) key() image.Key { return image.NewKey(a.state.Key()) }

// Seal signs a manifest with this machine's key.
func (a *Archive) Seal(m *image.Manifest) ([]byte, error) { return image.Sign(m, a.key()) }

// Image is an open generation of an image.
type Image struct {
	ckpt.Source
	dir *store.Dir
}

// Store identifies the image directory, wherever it is.
func (i *Image) Store() image.ID { return i.dir.Store() }

// Close closes the image. Later calls have no effect.
func (i *Image) Close() {
	for _, pack := range i.Packs {
		_ = pack.Close() // only read
	}
	i.Packs = nil
	if i.dir != nil {
		i.dir.Close()
		i.dir = nil
	}
}

// Open opens a generation that the caller may restore: sealed by this machine or by an imported
// key, and of the caller's own program. Root may restore any.
func (a *Archive) Open(directory *os.File, generation uint64, caller api.Caller) (_ *Image, err error) {
	if err := CheckDirectory(directory); err != nil {
		return nil, err
	}
	i := &Image{}
	i.Release = i.Close
	defer func() {
		if err != nil {
			i.Close()
		}
	}()
	if i.dir, err = store.Open(directory, store.As(RightsOf(caller).Do)); err != nil {
		return nil, err
	}
	signed, err := i.dir.Manifest(generation)
	if err != nil {
		return nil, err
	}
	if i.Manifest, err = a.unseal(signed, caller); err != nil {
		return nil, fmt.Errorf("%s: %w", i.dir.ManifestPath(generation), err)
	}
	if i.Packs, err = i.dir.Packs(); err != nil {
		return nil, err
	}
	i.Reader, err = contents.NewReader(i.Packs)
	return i, err
}

// unseal verifies a manifest's seal and the caller's right to it.
func (a *Archive) unseal(signed []byte, caller api.Caller) (*image.Manifest, error) {
	imported, err := a.state.Imported()
	if err != nil {
		return nil, err
	}
	keys := []image.Key{a.key()}
	for _, each := range imported {
		keys = append(keys, image.NewKey(each))
	}
	m, seal, err := image.OpenSigned(signed, keys)
	if caller.Root() && errors.Is(err, image.ErrUnknownKey) {
		m, _, err = image.Inspect(signed) // root may restore images with an unknown seal
		return m, err
	}
	if err != nil {
		return nil, fmt.Errorf(
			"%w: the seal of the image: %w; an image of another machine needs root, or its key (pos_cli help image key)",
			api.ErrNotPermitted,
			err,
		)
	}
	if !caller.CanAccess(seal.OwnerUID) {
		return nil, fmt.Errorf("%w: the image belongs to another user", api.ErrNotPermitted)
	}
	return m, nil
}
