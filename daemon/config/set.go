package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Set changes one setting by its key.
func (c *Config) Set(key, value string) error {
	if within := short[key]; within != "" {
		key += "." + within
	}
	key = currentName(key)
	place := reflect.ValueOf(c).Elem()
	for part := range strings.SplitSeq(key, ".") {
		place = fieldByKey(place, part)
		if !place.IsValid() {
			return fmt.Errorf("%w: unknown key %s; the keys are %s", ErrInvalid, key, strings.Join(Keys(), ", "))
		}
	}
	if text, isText := place.Addr().Interface().(encoding.TextUnmarshaler); isText {
		return text.UnmarshalText([]byte(value))
	}
	switch place.Kind() {
	case reflect.String:
		place.SetString(value)
	case reflect.Int:
		number, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%w: %s: %q is not a whole number", ErrInvalid, key, value)
		}
		place.SetInt(int64(number))
	case reflect.Bool:
		truth, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%w: %s: %q is neither true nor false", ErrInvalid, key, value)
		}
		place.SetBool(truth)
	case reflect.Slice: // of texts, with commas between
		place.Set(reflect.MakeSlice(place.Type(), 0, 0))
		for each := range strings.SplitSeq(value, ",") {
			if each = strings.TrimSpace(each); each != "" {
				place.Set(reflect.Append(place, reflect.ValueOf(each)))
			}
		}
	default:
		return fmt.Errorf("%w: %s is a table, not a setting", ErrInvalid, key)
	}
	return nil
}

// fieldByKey returns the field with a toml tag; the zero Value if there is none.
func fieldByKey(of reflect.Value, key string) reflect.Value {
	if of.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for i := range of.NumField() {
		if of.Type().Field(i).Tag.Get("toml") == key {
			return of.Field(i)
		}
	}
	return reflect.Value{}
}
