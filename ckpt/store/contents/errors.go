package contents

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/ckpt/image"
)

// Errors of packs. Damage is image.ErrMalformed.
var (
	// ErrMissing is returned for a content that no pack has.
	ErrMissing = errors.New("content is missing")
	// ErrTooLarge is returned for an image with too many packs or contents.
	ErrTooLarge = errors.New("the image is too large")
)

// ExplainDamage adds to an error which image is damaged and what its user can do. It returns errors
// that do not mean damage as they are.
func ExplainDamage(dir string, err error) error {
	if !errors.Is(err, image.ErrMalformed) && !errors.Is(err, ErrMissing) {
		return err
	}
	return fmt.Errorf("the image %s is damaged: restore another generation "+
		"(--generation N; pos_cli image verify finds undamaged ones): %w", dir, err)
}
