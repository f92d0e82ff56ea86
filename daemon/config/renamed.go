package config

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// renamed are old names of keys, which still work in files and as flags. A file that has the old
// and the new name of a key is an error. Only the last part of a name differs.
var renamed = map[string]string{
	"workers.warm":            "workers.standby",
	"sessions.per_user":       "sessions.programs_per_user",
	"checkpoint.warm_seconds": "checkpoint.prepared_seconds",
}

// currentName returns the name of a key that may be given by its old name.
func currentName(key string) string {
	if current := renamed[key]; current != "" {
		return current
	}
	return key
}

// renameKeys replaces the old names of keys in a file. Lines stay where they are.
func renameKeys(path string, text []byte) ([]byte, error) {
	var parser unstable.Parser
	parser.Reset(text)
	found := keyFinder{parser: &parser, all: make(map[string]bool)}
	table := ""
	for parser.NextExpression() {
		switch node := parser.Expression(); node.Kind {
		case unstable.Table:
			name, _ := keyName(node.Key())
			table = name + "."
		case unstable.KeyValue:
			found.add(table, node)
		default: // comments have no key
		}
	}
	var replaced []byte
	done := 0
	for _, old := range found.old {
		current := renamed[old.name]
		if found.all[current] {
			return nil, &FileError{
				Path: path, Line: old.line, Column: old.column,
				Text: fmt.Sprintf("%s: it is the old name of %s, which is set too; remove it", old.name, current),
			}
		}
		last := current[strings.LastIndexByte(current, '.')+1:]
		replaced = append(append(replaced, text[done:old.start]...), last...)
		done = old.end
	}
	return append(replaced, text[done:]...), nil
}

// oldKey is an old name in a file: its place, and the bytes of its last part.
type oldKey struct {
	name         string
	line, column int
	start, end   int
}

// keyFinder collects the keys of a file, in their order.
type keyFinder struct {
	parser *unstable.Parser
	all    map[string]bool
	old    []oldKey
}

// add adds a key, or the keys of an inline table.
func (f *keyFinder) add(prefix string, node *unstable.Node) {
	name, last := keyName(node.Key())
	name = prefix + name
	if value := node.Value(); value.Kind == unstable.InlineTable {
		for children := value.Children(); children.Next(); {
			f.add(name+".", children.Node())
		}
		return
	}
	f.all[name] = true
	if renamed[name] != "" {
		at := f.parser.Shape(last.Raw).Start
		start := int(last.Raw.Offset)
		f.old = append(f.old, oldKey{name, at.Line, at.Column, start, start + int(last.Raw.Length)})
	}
}

// keyName returns the name of a key, and its last part.
func keyName(key unstable.Iterator) (name string, last *unstable.Node) {
	var parts []string
	for key.Next() {
		last = key.Node()
		parts = append(parts, string(last.Data))
	}
	return strings.Join(parts, "."), last
}
