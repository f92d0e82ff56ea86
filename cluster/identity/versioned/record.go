package versioned

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

var (
	// ErrNewer means that a newer phos has written the record.
	ErrNewer = errors.New("written by a newer version of phos")
	// ErrDamaged means that a record cannot be what phos has written.
	ErrDamaged = errors.New("damaged")
)

// MaxBytes is the most that a record may have.
const MaxBytes = 256 << 10

// Encode returns the text of a record, one field a line.
func Encode(record any) ([]byte, error) {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// Decode reads a record of the newest version that this program knows. The error is ErrNewer or
// ErrDamaged.
func Decode(text []byte, newest int, record any) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("%w: %d bytes", ErrDamaged, len(text))
	}
	var head struct{ Version *int }
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case head.Version == nil:
		return fmt.Errorf("%w: it has no version", ErrDamaged)
	case *head.Version > newest:
		return fmt.Errorf("version %d: %w, and this one knows version %d", *head.Version, ErrNewer, newest)
	case *head.Version < 1:
		return fmt.Errorf("%w: version %d", ErrDamaged, *head.Version)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(record); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the record", ErrDamaged)
	}
	return nil
}
