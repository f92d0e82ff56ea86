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

// Image is code as the program gave it, kept because a restore loads it again.
type Image struct {
	Hash  Hash
	Bytes []byte
	users int
}

// NewImage is an image that nobody keeps. It has the content for its own.
func NewImage(content []byte) *Image { return &Image{Hash: sha256.Sum256(content), Bytes: content} }

// Images keeps one copy of each content. Frameworks load the same code again and again.
type Images struct {
	byHash map[Hash]*Image
}

// Keep returns the image of this content and counts one user of it. It takes a copy when the
// content is new.
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

// Use counts one more user of an image that is kept.
func (s *Images) Use(image *Image) *Image {
	image.users++
	return image
}

// Discard takes one Keep back, for an image that did not become part of an object.
func (s *Images) Discard(image *Image) { s.release(image) }

func (s *Images) release(image *Image) {
	image.users--
	if image.users == 0 {
		delete(s.byHash, image.Hash)
	}
}

// All yields the images in the order of their hashes.
func (s *Images) All() iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		for _, hash := range slices.SortedFunc(maps.Keys(s.byHash), func(a, b Hash) int { return bytes.Compare(a[:], b[:]) }) {
			if !yield(s.byHash[hash]) {
				return
			}
		}
	}
}
