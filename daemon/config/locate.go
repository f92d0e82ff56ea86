package config

import (
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// setting is one line of a file that gives a key a value.
type setting struct {
	key          string
	line, column int
}

// settings lists the keys of a file with their places. A file that is no TOML gives those before the mistake.
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

// locate gives a complaint about a key the place where the file sets it; an inline table is the place of what is in it.
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

// wrongType is how the decoder says that a value is of the wrong type, in words about Go.
var wrongType = regexp.MustCompile(`^cannot decode TOML (\w+) into (?:a )?(?:struct field \S+ of type |Go (?:value of )?type )?(\S+)$`)

// plain says it in words about the file.
func plain(text string) string {
	if found := wrongType.FindStringSubmatch(text); found != nil {
		return "it is of type " + found[1] + ", and must be of type " + strings.TrimPrefix(found[2], "config.")
	}
	return text
}
