package contents

import "errors"

// Errors of packs. Damage is image.ErrMalformed.
var (
	// ErrMissing is returned for a content that no pack has.
	ErrMissing = errors.New("content is missing")
	// ErrTooLarge is returned for an image with too many packs or contents.
	ErrTooLarge = errors.New("the image is too large")
)
