package contents

import "errors"

// Errors of packs. Damage is image.ErrMalformed.
var (
	// ErrMissing means a content that no pack has.
	ErrMissing = errors.New("content is missing")
	// ErrTooLarge means an image of more packs or contents than are read.
	ErrTooLarge = errors.New("the image is too large")
)
