package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// ErrInvalid is in the chain of every complaint about a configuration.
var ErrInvalid = errors.New("invalid configuration")

// FileError is a configuration file that phosd cannot use.
type FileError struct {
	Path string
	// Line and Column count from 1; 0: unknown.
	Line, Column int
	Text         string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Path, e.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Path, e.Line, e.Column, e.Text)
}

// Unwrap lets errors.Is(err, ErrInvalid) see what it is.
func (e *FileError) Unwrap() error { return ErrInvalid }

// SettingError is a value that cannot work, wherever it was set.
type SettingError struct {
	Key, Value, Text string
}

func (e *SettingError) Error() string { return ErrInvalid.Error() + ": " + e.said() }

func (e *SettingError) said() string { return fmt.Sprintf("%s %q: %s", e.Key, e.Value, e.Text) }

// Unwrap lets errors.Is(err, ErrInvalid) see what it is.
func (e *SettingError) Unwrap() error { return ErrInvalid }

// Load reads a file over the defaults. The default file may be missing, one that was asked for may
// not.
func Load(path string) (Config, error) {
	named := path != ""
	if !named {
		path = DefaultPath
	}
	text, err := os.ReadFile(path)
	if !named && errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, text)
}

// Parse reads a file's text over the defaults; path is for the errors.
func Parse(path string, text []byte) (Config, error) {
	text, err := renameKeys(path, text)
	if err != nil {
		return Config{}, err
	}
	config := Default()
	decoder := toml.NewDecoder(bytes.NewReader(lengthen(text))).DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return Config{}, fileError(path, text, err)
	}
	if err := config.Check(); err != nil {
		return Config{}, fileError(path, text, err)
	}
	return config, nil
}

// fileError adds the line and the column of the wrong key to a decoder's error, if it names one.
func fileError(path string, text []byte, err error) error {
	var unfit *SettingError
	if errors.As(err, &unfit) {
		line, column := locate(text, unfit.Key)
		return &FileError{Path: path, Line: line, Column: column, Text: unfit.said()}
	}
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		first := unknown.Errors[0]
		line, column := first.Position()
		return &FileError{
			Path: path, Line: line, Column: column,
			Text: fmt.Sprintf("unknown key %s; the keys are %s", strings.Join(first.Key(), "."), strings.Join(Keys(), ", ")),
		}
	}
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, column := wrong.Position()
		said := plain(wrong.Error())
		if key := keyOn(text, line); key != "" {
			said = key + ": " + said
		}
		return &FileError{Path: path, Line: line, Column: column, Text: said}
	}
	return unplaced(path, text, err)
}

// Keys lists every key of the file, in its order.
func Keys() []string { return keysOf(reflect.TypeFor[Config](), "") }

// keysOf lists the keys of a struct by its toml tags; those of inner structs are a.b.
func keysOf(of reflect.Type, prefix string) []string {
	var keys []string
	for i := range of.NumField() {
		field := of.Field(i)
		name := prefix + field.Tag.Get("toml")
		if field.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(field.Type, name+".")...)
			continue
		}
		keys = append(keys, name)
	}
	return keys
}
