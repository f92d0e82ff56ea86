package image

import (
	"errors"
	"fmt"
)

// ErrMalformed is returned for bytes that are damaged, truncated or invalid.
var ErrMalformed = errors.New("malformed")

// ErrVersion is returned for a format version that is newer than this phos.
var ErrVersion = errors.New("unknown format version")

// malformed returns an ErrMalformed with a text.
func malformed(format string, arguments ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, arguments...)...)
}

func checkVersion(what string, version uint32) error {
	if version == 0 || version > Version {
		return fmt.Errorf(
			"%s: %w: %d, and this phos reads up to %d; use the one that wrote it, or a newer one",
			what,
			ErrVersion,
			version,
			Version,
		)
	}
	return nil
}
