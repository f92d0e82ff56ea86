package main

import (
	"fmt"
	"go/ast"
	constants "go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"sort"
	"strings"
	"unicode"
)

// constant is an integer constant of package wire or abi, under its name in C.
type constant struct {
	name  string
	value int64
	pos   token.Pos
}

// loadLayout evaluates the constants of the session file, the handshake and the handle kinds. It
// reads these files alone, so that the generator runs while the generated part of their packages
// does not compile.
func loadLayout(root string) ([]constant, error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range []string{"wire/layout.go", "wire/handshake.go", "wire/inquiry.go", "abi/handle.go"} {
		f, err := parser.ParseFile(fset, filepath.Join(root, "hijack", name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		f.Name.Name = "layout"
		files = append(files, f)
	}
	config := types.Config{Error: func(error) {}} // functions in these files may use what is not here
	pkg, err := config.Check("layout", fset, files, nil)
	if pkg == nil {
		return nil, err
	}
	var found []constant
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !c.Exported() {
			continue
		}
		value, exact := constants.Int64Val(constants.ToInt(c.Val()))
		if !exact {
			return nil, fmt.Errorf("constant %s is no integer", name)
		}
		found = append(found, constant{"PHOS_" + snake(name), value, c.Pos()})
	}
	sort.Slice(found, func(i, j int) bool { return found[i].pos < found[j].pos })
	return found, nil
}

// snake turns RingBytes into RING_BYTES.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// cLayout writes package wire's constants as C macros.
func cLayout(s *spec) ([]byte, error) {
	var b strings.Builder
	b.WriteString(
		cBanner + "/* The session file and the handshake; package wire explains them. */\n#ifndef PHOS_ZZ_LAYOUT_H\n#define PHOS_ZZ_LAYOUT_H\n\n",
	)
	for _, c := range s.layout {
		if c.value > 1<<31 {
			fmt.Fprintf(&b, "#define %s UINT64_C(%#x)\n", c.name, c.value)
			continue
		}
		fmt.Fprintf(&b, "#define %s %d\n", c.name, c.value)
	}
	b.WriteString("\n#endif\n")
	return []byte(b.String()), nil
}
