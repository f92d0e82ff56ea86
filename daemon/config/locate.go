package config

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// setting is one line of a file that gives a key a value.
type setting struct {
	key          string
	line, column int
}

// settings lists the keys of a file with their places. A file that is no TOML gives those before
// the mistake.
func settings(text []byte) []setting {
	var parser unstable.Parser
	parser.Reset(text)
	var found []setting
	table := ""
	for parser.NextExpression() {
		node := parser.Expression()
		if node.Kind != unstable.Table && node.Kind != unstable.KeyValue {
			continue
		}
		var parts []string
		var at unstable.Position
		for key := node.Key(); key.Next(); parts = append(parts, string(key.Node().Data)) {
			if len(parts) == 0 {
				at = parser.Shape(key.Node().Raw).Start
			}
		}
		name := strings.Join(parts, ".")
		if node.Kind == unstable.Table {
			table = name + "."
			continue
		}
		found = append(found, setting{table + name, at.Line, at.Column})
	}
	return found
}

// locate gives a complaint about a key the place where the file sets it; an inline table is the
// place of what is in it.
func locate(text []byte, key string) (line, column int) {
	for _, each := range settings(text) {
		if each.key == key || strings.HasPrefix(key, each.key+".") {
			return each.line, each.column
		}
	}
	return 0, 0
}

// keyOn is the key that a line sets, empty where none is.
func keyOn(text []byte, line int) string {
	for _, each := range settings(text) {
		if each.line == line {
			return each.key
		}
	}
	return ""
}

// unplaced is for what the decoder says without a place: it names a field, or a key that it has
// seen before.
func unplaced(path string, text []byte, err error) error {
	wrong := &FileError{Path: path, Text: plain(err.Error())}
	if found := goField.FindStringSubmatch(err.Error()); found != nil {
		key := keyOf(reflect.TypeFor[Config](), found[1], found[2])
		wrong.Line, wrong.Column = locate(text, key)
		wrong.Text = key + ": " + wrong.Text
	}
	seen := map[string]bool{}
	for _, each := range settings(text) {
		if seen[each.key] {
			return &FileError{
				Path:   path,
				Line:   each.line,
				Column: each.column,
				Text:   each.key + ": it is set a second time",
			}
		}
		seen[each.key] = true
	}
	return wrong
}

// keyOf is the key of a field of a struct somewhere in a type.
func keyOf(of reflect.Type, owner, name string) string {
	for i := range of.NumField() {
		field := of.Field(i)
		if of.Name() == owner && field.Name == name {
			return field.Tag.Get("toml")
		}
		if field.Type.Kind() == reflect.Struct {
			if key := keyOf(field.Type, owner, name); key != "" {
				return field.Tag.Get("toml") + "." + key
			}
		}
	}
	return ""
}

// wrongType is how the decoder says that a value is of the wrong type, and goField how it says of
// which field, in words about Go.
var (
	wrongType = regexp.MustCompile(
		`^cannot decode TOML (\w+) into (?:a )?(?:struct field \S+ of type |Go (?:value of )?type )?(\S+)$`,
	)
	goField = regexp.MustCompile(`struct field config\.(\w+)\.(\w+) `)
)

// inFile is what types are called in a file.
var inFile = map[string]string{
	"string": "text", "integer": "a whole number", "int": "a whole number", "bool": "true or false", "boolean": "true or false", "array": "a list", "table": "a table",
	"Occasions": "a list", "Size": "text, as '8GiB'", "Interval": "text, as '10m'", "GPUs": "text or a table", "Sessions": "a table", "Workers": "a table", "Checkpoint": "a table", "Log": "a table", "Metrics": "a table",
}

// plain says it in words about the file.
func plain(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "toml: "), ErrInvalid.Error()+": ")
	found := wrongType.FindStringSubmatch(text)
	if found == nil {
		return text
	}
	for i, word := range found {
		word = strings.TrimPrefix(word, "config.")
		if found[i] = inFile[word]; found[i] == "" {
			found[i] = word
		}
	}
	return "it is " + found[1] + ", and must be " + found[2]
}
