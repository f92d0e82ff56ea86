package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// MaxBytes is the longest description. The store keeps each as one object.
const MaxBytes = 1 << 20

// ReadTOML reads a launch file. Every field that does not fit is named; the values are checked by
// Check.
func ReadTOML(text []byte) (Spec, error) {
	if err := checkText(text); err != nil {
		return Spec{}, err
	}
	var decoded map[string]any
	if err := toml.Unmarshal(text, &decoded); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return Spec{}, fmt.Errorf("%w: line %d, column %d: %s", ErrInvalid, row, column, at.Error())
		}
		return Spec{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return bindSpec(decoded)
}

// ReadJSON reads what json.Marshal writes of a Spec, and what other programs write.
func ReadJSON(text []byte) (Spec, error) {
	if err := checkText(text); err != nil {
		return Spec{}, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var decoded map[string]any
	if err := decoder.Decode(&decoded); err != nil {
		return Spec{}, fmt.Errorf("%w: byte %d: %w", ErrInvalid, decoder.InputOffset(), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Spec{}, fmt.Errorf("%w: byte %d: more than one value", ErrInvalid, decoder.InputOffset())
	}
	return bindSpec(decoded)
}

// checkText returns an error for what no description can be.
func checkText(text []byte) error {
	switch {
	case len(text) > MaxBytes:
		return fmt.Errorf("%w: %d bytes; at most %d are allowed", ErrInvalid, len(text), MaxBytes)
	case !utf8.Valid(text):
		return fmt.Errorf("%w: it is not UTF-8", ErrInvalid)
	}
	return nil
}

// bindSpec makes a Spec of a decoded table.
func bindSpec(decoded map[string]any) (spec Spec, err error) {
	var b binder
	b.bind("", decoded, reflect.ValueOf(&spec).Elem())
	if len(b.errors) > 0 {
		return Spec{}, b.errors
	}
	return spec, nil
}

// JSON returns what ReadJSON reads.
func (s *Spec) JSON() ([]byte, error) { return json.Marshal(s) }
