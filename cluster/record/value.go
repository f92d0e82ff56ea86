package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Errors of values.
var (
	// ErrDamaged means that a value is not what any version writes.
	ErrDamaged = errors.New("damaged record")
	// ErrNewer means that a newer version of phos has written a value.
	ErrNewer = errors.New("written by a newer version of phos: upgrade this controller")
)

// envelope is what stands around each value.
type envelope struct {
	Kind    string          `json:"kind"`
	Version int             `json:"version"`
	Value   json.RawMessage `json:"value"`
}

// encode writes a value of a kind. The types of this package can always be written.
func encode(kind string, version int, value any) []byte {
	inner, err := json.Marshal(value)
	if err == nil {
		inner, err = json.Marshal(envelope{kind, version, inner})
	}
	if err != nil {
		panic(fmt.Sprintf("record of kind %s: %v", kind, err))
	}
	return inner
}

// decode reads a value of a kind, of a version up to the given one.
func decode(text []byte, kind string, version int, into any) error {
	var outer envelope
	if err := json.Unmarshal(text, &outer); err != nil {
		return fmt.Errorf("%s: %w: %w", kind, ErrDamaged, err)
	}
	switch {
	case outer.Kind != kind:
		return fmt.Errorf("%s: %w: it is of kind %.20q", kind, ErrDamaged, outer.Kind)
	case outer.Version > version:
		return fmt.Errorf("%s of version %d (known is %d): %w", kind, outer.Version, version, ErrNewer)
	case outer.Version < 1:
		return fmt.Errorf("%s: %w: version %d", kind, ErrDamaged, outer.Version)
	}
	decoder := json.NewDecoder(bytes.NewReader(outer.Value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %w: %w", kind, ErrDamaged, err)
	}
	return nil
}
