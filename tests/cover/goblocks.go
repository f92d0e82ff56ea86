package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
)

const module = "github.com/phos-gpu/phos/"

// block is the position of a block.
type block struct {
	file                             string
	line, column, endLine, endColumn int
}

// readBlocks reads Go coverage profiles. A block may occur once for each program.
func readBlocks(profile []byte, sources fs.FS) ([]place, error) {
	run := map[block]bool{}
	for i, line := range strings.Split(strings.TrimSpace(string(profile)), "\n") {
		if strings.HasPrefix(line, "mode: ") {
			continue
		}
		at := strings.LastIndexByte(line, ':')
		var b block
		var statements, count uint64
		if at >= 0 {
			b.file = strings.TrimPrefix(line[:at], module)
		}
		if _, err := fmt.Sscanf(
			line[at+1:], "%d.%d,%d.%d %d %d", &b.line, &b.column, &b.endLine, &b.endColumn, &statements, &count,
		); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
		if statements > 0 && ours(b.file) {
			run[b] = run[b] || count > 0
		}
	}
	text, functions := newText(sources), functions{sources, map[string][]function{}}
	var places []place
	for b, run := range run {
		p := place{File: b.file, Language: inGo, run: run}
		var err error
		if p.Source, p.Line, err = text.from(b.file, b.line, b.column); err != nil {
			return nil, err
		}
		if p.Function, err = functions.at(b.file, b.line); err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	slices.SortFunc(places, inOrder)
	return places, nil
}

func inOrder(a, b place) int {
	return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Source, b.Source))
}

// function is the position of a Go function.
type function struct {
	name        string
	first, last int
}

// functions are the functions of the sources, by file.
type functions struct {
	sources fs.FS
	files   map[string][]function
}

// at returns the name of the function around a line.
func (f functions) at(file string, line int) (string, error) {
	if f.files[file] == nil {
		if err := f.parse(file); err != nil {
			return "", err
		}
	}
	for _, function := range f.files[file] {
		if function.first <= line && line <= function.last {
			return function.name, nil
		}
	}
	return "", fmt.Errorf("%s has no function in line %d: the file has changed since the counting", file, line)
}

func (f functions) parse(file string) error {
	content, err := fs.ReadFile(f.sources, file)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, file, content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declaration := range syntax.Decls {
		name := "a variable" // with a function in it
		if d, ok := declaration.(*ast.FuncDecl); ok {
			name = d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
		}
		f.files[file] = append(
			f.files[file],
			function{name, set.Position(declaration.Pos()).Line, set.Position(declaration.End()).Line},
		)
	}
	return nil
}

// receiver returns the name of a receiver's type, without pointer and type parameters.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
