package rules

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// selfEvident are names of unexported functions that say what the function does, alone or before
// the name of a thing: close, newReport, readHeader.
var selfEvident = []string{
	"add", "check", "close", "compare", "copy", "count", "decode", "dump", "encode", "find", "flush",
	"format", "freeze", "get", "init", "kill", "load", "lock", "main", "map", "new", "open", "parse",
	"print", "put", "read", "receive", "release", "remove", "reset", "restore", "run", "send", "set",
	"sort", "start", "stop", "store", "test", "thaw", "unlock", "unmap", "usage", "wait", "write",
}

// TestUnexportedComments: a function of more than one statement has a comment, or a name that says
// what it does.
func TestUnexportedComments(t *testing.T) {
	handlers := handlersOf(t)
	for _, s := range sources(t, product) {
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Doc != nil || f.Name.IsExported() || f.Body == nil || s.span(f) <= 3 {
				continue
			}
			if name := f.Name.Name; !slices.Contains(selfEvident, wordsOf(name)[0]) && !handlers[path.Join(s.dir(), name)] {
				t.Errorf("%s:%d: %s needs a comment that says what it does", s.path, s.set.Position(f.Pos()).Line, name)
			}
		}
	}
}

// handlersOf lists the methods that the generated dispatches call: one for each call of the driver,
// and named after it.
func handlersOf(t *testing.T) map[string]bool {
	t.Helper()
	handlers := map[string]bool{}
	for _, f := range files(t, func(f file) bool { return strings.HasSuffix(f.path, "/zz_dispatch.go") }) {
		for _, part := range strings.Split(string(f.text), "s.")[1:] {
			if name, _, found := strings.Cut(part, "(call"); found {
				handlers[path.Join(f.dir(), name)] = true
			}
		}
	}
	if len(handlers) == 0 {
		t.Fatal("no generated dispatch calls a handler")
	}
	return handlers
}
