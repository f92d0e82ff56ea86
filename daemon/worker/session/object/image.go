package object

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
)

// Hash names an image by its content.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Image is code as the program loaded it. It is kept because a restore loads it again.
type Image struct {
	Hash  Hash
	Bytes []byte
	users int
}

// NewImage returns an image outside of any Images. It takes ownership of the content.
func NewImage(content []byte) *Image { return &Image{Hash: sha256.Sum256(content), Bytes: content} }

// Images holds one copy of each content, because frameworks load the same code repeatedly.
type Images struct {
	byHash map[Hash]*Image
}

// Keep returns the image with this content and adds a reference to it. It copies new content.
func (s *Images) Keep(content []byte) *Image {
	hash := Hash(sha256.Sum256(content))
	image := s.byHash[hash]
	if image == nil {
		if s.byHash == nil {
			s.byHash = map[Hash]*Image{}
		}
		image = &Image{Hash: hash, Bytes: bytes.Clone(content)}
		s.byHash[hash] = image
	}
	image.users++
	return image
}

// Use adds a reference to an image.
func (s *Images) Use(image *Image) *Image {
	image.users++
	return image
}

// Discard releases a reference of Keep, for an image that did not become part of an object.
func (s *Images) Discard(image *Image) { s.release(image) }

func (s *Images) release(image *Image) {
	image.users--
	if image.users == 0 {
		delete(s.byHash, image.Hash)
	}
}

// All yields the images, sorted by hash.
func (s *Images) All() iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		compare := func(a, b Hash) int { return bytes.Compare(a[:], b[:]) }
		for _, hash := range slices.SortedFunc(maps.Keys(s.byHash), compare) {
			if !yield(s.byHash[hash]) {
				return
			}
		}
	}
}
