package image

import (
	"errors"
	"fmt"
)

// ErrMalformed means bytes that are not what they should be: damaged, cut off, or made up.
var ErrMalformed = errors.New("malformed")

// ErrVersion means a format that is newer than this phos.
var ErrVersion = errors.New("format version is not known")

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
