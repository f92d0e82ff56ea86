package launch

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/internal/spelling"
)

// binder copies decoded text into a Spec, and collects what does not fit.
type binder struct{ errors Errors }

// bind copies a value into a field: text, numbers, booleans, lists and tables, as a decoder of JSON
// or TOML makes them.
func (b *binder) bind(path string, value any, into reflect.Value) {
	if reader, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		b.bindText(path, value, reader)
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		b.bindTable(path, value, into)
	case reflect.Slice:
		b.bindList(path, value, into)
	case reflect.Map:
		b.bindMap(path, value, into)
	case reflect.String:
		if text, ok := value.(string); ok {
			into.SetString(text)
			return
		}
		b.wrong(path, value, "want text")
	case reflect.Bool:
		if set, ok := value.(bool); ok {
			into.SetBool(set)
			return
		}
		b.wrong(path, value, "want true or false")
	case reflect.Int:
		if number, ok := integer(value); ok {
			into.SetInt(number)
			return
		}
		b.wrong(path, value, "want a whole number")
	default:
		panic("field of kind " + into.Kind().String())
	}
}

// bindText reads a value that has a text form. A number may stand without quotes.
func (b *binder) bindText(path string, value any, into encoding.TextUnmarshaler) {
	var text string
	switch v := value.(type) {
	case string:
		text = v
	case int64, float64, json.Number:
		text = fmt.Sprint(v)
	default:
		text = ""
	}
	if err := into.UnmarshalText([]byte(text)); err != nil {
		b.wrong(path, value, err.Error())
	}
}

// integer returns a whole number that a decoder made.
func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case json.Number:
		number, err := v.Int64()
		return number, err == nil
	}
	return 0, false
}

// bindTable copies a table into a struct by the names of its JSON form.
func (b *binder) bindTable(path string, value any, into reflect.Value) {
	table, ok := value.(map[string]any)
	if !ok {
		b.wrong(path, value, "want a table of "+strings.Join(fieldNames(into.Type()), ", "))
		return
	}
	names := fieldNames(into.Type())
	for _, key := range slices.Sorted(maps.Keys(table)) {
		at := slices.Index(names, key)
		if at < 0 {
			b.unknown(join(path, key), key, names)
			continue
		}
		if table[key] != nil { // null is the same as nothing
			b.bind(join(path, key), table[key], into.Field(at))
		}
	}
}

// fieldNames returns the names of a struct's fields in its JSON form.
func fieldNames(of reflect.Type) (names []string) {
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// bindList copies a list. One element that is no list is refused: it is often a command without
// brackets.
func (b *binder) bindList(path string, value any, into reflect.Value) {
	list, ok := value.([]any)
	if !ok {
		b.wrong(path, value, "want a list, as ["+example(into.Type().Elem())+"]")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
	for i, each := range list {
		b.bind(fmt.Sprintf("%s[%d]", path, i), each, into.Index(i))
	}
}

// example returns an element of a list for an error.
func example(of reflect.Type) string {
	switch of.Kind() {
	case reflect.String:
		return `"a", "b"`
	case reflect.Int:
		return "1, 2"
	default:
		return "{ … }"
	}
}

// bindMap copies a table whose names are free.
func (b *binder) bindMap(path string, value any, into reflect.Value) {
	table, ok := value.(map[string]any)
	if !ok {
		b.wrong(path, value, "want a table, as { NAME = "+example(reflect.TypeFor[string]())+" }")
		return
	}
	into.Set(reflect.MakeMapWithSize(into.Type(), len(table)))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		element := reflect.New(into.Type().Elem()).Elem()
		b.bind(join(path, key), table[key], element)
		into.SetMapIndex(reflect.ValueOf(key), element)
	}
}

// join appends a name to the path of a field.
func join(path, key string) string {
	if len(key) > maxValue {
		key = key[:maxValue] + "…"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func (b *binder) wrong(path string, value any, problem string) {
	b.errors = append(b.errors, FieldError{Field: path, Value: shown(value), Problem: problem})
}

// unknown refuses a field, and names the one that was probably meant.
func (b *binder) unknown(path, key string, known []string) {
	problem := "unknown field; known are " + strings.Join(known, ", ")
	if near := spelling.Nearest(key, known); near != "" {
		problem = fmt.Sprintf("unknown field; did you mean %s?", near)
	}
	b.errors = append(b.errors, FieldError{Field: path, Problem: problem})
}
