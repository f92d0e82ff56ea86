package store

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/ckpt/image"
)

// Names within an image directory.
const (
	markerName      = "phos-image"
	lockName        = "lock"
	generationsName = "generations"
	packsName       = "packs"
	tmpName         = "tmp"
	journalName     = "commit"

	// maxGeneration leaves room for following generations.
	maxGeneration = 1 << 62

	packSuffix       = ".pack"
	generationSuffix = ".generation"
	markerSuffix     = ".marker"
)

func newID() image.ID {
	var id image.ID
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func generationName(n uint64) string { return fmt.Sprintf("%06d", n) }

// parseGeneration parses only the output of generationName.
func parseGeneration(name string) (uint64, bool) {
	n, err := strconv.ParseUint(name, 10, 63)
	return n, err == nil && n > 0 && n <= maxGeneration && generationName(n) == name
}

// GenerationOf returns the generation whose manifest is in a file, by the file's name in the
// directory.
func GenerationOf(file string) (uint64, bool) {
	name, inside := strings.CutPrefix(file, generationsName+"/")
	n, ours := parseGeneration(name)
	return n, inside && ours
}

func packName(id image.ID) string { return id.String() + packSuffix }

func parsePack(name string) (image.ID, bool) { return parseSuffixed(name, packSuffix) }

func parseSuffixed(name, suffix string) (image.ID, bool) {
	stem, found := strings.CutSuffix(name, suffix)
	if !found {
		return image.ID{}, false
	}
	id, err := image.ParseID(stem)
	return id, err == nil
}

// isTemporary reports whether a name in tmp is one that this package creates.
func isTemporary(name string) bool {
	for _, suffix := range []string{packSuffix, generationSuffix, markerSuffix} {
		if _, ok := parseSuffixed(name, suffix); ok {
			return true
		}
	}
	return name == journalName
}

// tooLong returns the error for a file that is longer than permitted.
func tooLong(have, limit int64) error {
	return fmt.Errorf("%w: %d bytes, at most %d allowed", image.ErrMalformed, have, limit)
}
