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
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/internal/linux/account"
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

// Seal seals a manifest with this machine's key.
func (a *Archive) Seal(m *image.Manifest) ([]byte, error) { return image.SealManifest(m, a.key()) }

// Access is what a caller may open.
type Access struct {
	Caller api.Caller
	// TrustSeal lets root open images whose seal is by an unknown key.
	TrustSeal bool
}

// Image is an open generation of an image.
type Image struct {
	ckpt.Source
	// Identity identifies the content, wherever it is: a copy of an image has the same store and
	// the same numbers of generations, and may have other content since.
	Identity image.Hash
	// UnknownKey is the key of a seal that nothing but TrustSeal vouches for, else nil.
	UnknownKey *image.KeyID
	dir        *store.Dir
	// open counts the packs as the caller's.
	open *quota.Claim
}

// Close closes the image. Later calls have no effect.
func (i *Image) Close() {
	for _, pack := range i.Packs {
		_ = pack.Close() // only read
	}
	i.Packs = nil
	i.open.Release()
	if i.dir != nil {
		i.dir.Close()
		i.dir = nil
	}
}

// Open opens a generation that the caller may restore: sealed by this machine or by an imported
// key, and of the caller's own program. Root may restore any user's.
func (a *Archive) Open(directory *os.File, generation uint64, access Access) (_ *Image, err error) {
	if err := CheckDirectory(directory); err != nil {
		return nil, err
	}
	i := &Image{}
	if i.open, err = a.quota.Take(access.Caller.UID, quota.Files, 0); err != nil {
		return nil, err
	}
	i.open.By(access.Caller.Process)
	i.Release = i.Close
	defer func() {
		if err != nil {
			i.Close()
		}
	}()
	if i.dir, err = store.Open(directory, store.As(RightsOf(access.Caller).Do)); err != nil {
		return nil, err
	}
	if generation == 0 {
		if generation, err = i.dir.Newest(); err != nil {
			return nil, err
		}
	}
	sealed, err := i.dir.Manifest(generation)
	if err != nil {
		return nil, err
	}
	i.Identity = image.Sum(sealed)
	if err := a.unseal(i, sealed, access); err != nil {
		return nil, fmt.Errorf("%s: %w", i.dir.ManifestPath(generation), err)
	}
	if i.Manifest.Generation != generation {
		return nil, fmt.Errorf(
			"%s: %w: the file holds generation %d",
			i.dir.ManifestPath(generation), image.ErrMalformed, i.Manifest.Generation,
		)
	}
	if i.Packs, err = i.dir.Packs(); err != nil {
		return nil, err
	}
	if err = i.open.Grow(uint64(len(i.Packs))); err != nil {
		return nil, err
	}
	i.Name = i.dir.ManifestPath(generation)
	i.Reader, err = contents.NewReader(i.Packs)
	return i, err
}

// unseal verifies a manifest's seal and the caller's right to it.
func (a *Archive) unseal(i *Image, sealed []byte, access Access) error {
	imported, err := a.state.Imported()
	if err != nil {
		return err
	}
	keys := []image.Key{a.key()}
	for _, each := range imported {
		keys = append(keys, image.NewKey(each))
	}
	m, seal, err := image.OpenSealed(sealed, keys)
	switch {
	case err == nil:
	case errors.Is(err, image.ErrUnknownKey) && access.Caller.Root():
		return a.unsealForRoot(i, sealed, access)
	case errors.Is(err, image.ErrMalformed): // damage, and no lack of rights
		return err
	default:
		return fmt.Errorf(
			"%w: the seal of the image: %w; an image of another machine needs root, or its key (pos_cli help image key)",
			api.ErrNotPermitted,
			err,
		)
	}
	if !access.Caller.CanAccess(seal.OwnerUID) {
		return fmt.Errorf("%w: the image belongs to another user", api.ErrNotPermitted)
	}
	i.Manifest = m
	return nil
}

// unsealForRoot opens a manifest with a seal by an unknown key, if root trusts it: it may say that
// its program runs as any user, root included.
func (a *Archive) unsealForRoot(i *Image, sealed []byte, access Access) error {
	m, seal, err := image.Inspect(sealed)
	if err != nil {
		return err
	}
	if !access.TrustSeal {
		return fmt.Errorf(
			"%w: the image is sealed by the unknown key %s, and its program would run as user %d (%s); "+
				"if you trust the image: --trust-seal, or import the key (pos_cli help image key)",
			api.ErrNotPermitted, seal.Key, m.Owner.UID, account.Name(m.Owner.UID),
		)
	}
	i.Manifest, i.UnknownKey = m, &seal.Key
	return nil
}
