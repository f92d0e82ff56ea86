package rules

import (
	"bytes"
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

const (
	fileLines      = 600
	tableLines     = 1000 // tables and instruction semantics
	functionLines  = 80
	parameters     = 5
	methods        = 8
	packageFiles   = 20
	packageLines   = 5000
	cFileLines     = 500
	cFunctionLines = 60
)

var longFiles = exceptions{}

func TestFileLength(t *testing.T) {
	breaches := map[string]string{}
	var lengths []int
	for _, s := range sources(t, func(file) bool { return true }) {
		limit := fileLines
		if s.isTest() {
			limit = tableLines
		} else {
			lengths = append(lengths, s.lines())
		}
		if n := s.lines(); n > limit {
			breaches[s.path] = fmt.Sprintf("%d lines of at most %d", n, limit)
		}
	}
	slices.Sort(lengths)
	t.Logf(
		"%d files, median %d lines, 95th percentile %d",
		len(lengths),
		lengths[len(lengths)/2],
		lengths[len(lengths)*95/100],
	)
	longFiles.check(t, breaches)
}

// longFunctions are opcode switches and tables, where length is not complexity.
var longFunctions = exceptions{}

func TestFunctionLength(t *testing.T) {
	breaches := map[string]string{}
	var lengths []int
	for _, s := range sources(t, product) {
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := s.span(f)
			lengths = append(lengths, n)
			if n > functionLines {
				breaches[s.dir()+"."+f.Name.Name] = fmt.Sprintf("%d lines of at most %d", n, functionLines)
			}
		}
	}
	slices.Sort(lengths)
	t.Logf(
		"%d functions, median %d lines, 95th percentile %d",
		len(lengths),
		lengths[len(lengths)/2],
		lengths[len(lengths)*95/100],
	)
	longFunctions.check(t, breaches)
}

var manyParameters = exceptions{}

func TestParameters(t *testing.T) {
	breaches := map[string]string{}
	for _, s := range sources(t, product) {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Type.Params.NumFields() > parameters {
				breaches[s.dir()+"."+f.Name.Name] = fmt.Sprintf(
					"%d parameters of at most %d: make a struct",
					f.Type.Params.NumFields(),
					parameters,
				)
			}
		}
	}
	manyParameters.check(t, breaches)
}

var wideInterfaces = exceptions{}

func TestInterfaceSize(t *testing.T) {
	breaches := map[string]string{}
	for _, s := range sources(t, product) {
		ast.Inspect(s.syntax, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if i, ok := spec.Type.(*ast.InterfaceType); ok && i.Methods.NumFields() > methods {
				breaches[s.dir()+"."+spec.Name.Name] = fmt.Sprintf(
					"%d methods of at most %d",
					i.Methods.NumFields(),
					methods,
				)
			}
			return true
		})
	}
	wideInterfaces.check(t, breaches)
}

var largePackages = exceptions{}

func TestPackageSize(t *testing.T) {
	count, lines := map[string]int{}, map[string]int{}
	for _, s := range sources(t, product) {
		count[s.dir()]++
		lines[s.dir()] += s.lines()
	}
	breaches := map[string]string{}
	for dir := range count {
		if count[dir] > packageFiles || lines[dir] > packageLines {
			breaches[dir] = fmt.Sprintf(
				"%d files and %d lines of at most %d and %d",
				count[dir],
				lines[dir],
				packageFiles,
				packageLines,
			)
		}
	}
	largePackages.check(t, breaches)
}

var longC = exceptions{}

// cFunction finds a function body in code laid out as .clang-format says: its braces stand in the
// first column.
var cFunction = regexp.MustCompile(`(?ms)^[a-zA-Z_][^;{}]*?\b(\w+)\([^;{}]*\)\s*^\{$.*?^\}$`)

func TestCLength(t *testing.T) {
	breaches := map[string]string{}
	for _, f := range files(t, func(f file) bool { return (f.has(".c") || f.has(".h")) && !f.generated() }) {
		if n := f.lines(); n > cFileLines {
			breaches[f.path] = fmt.Sprintf("%d lines of at most %d", n, cFileLines)
		}
		for _, match := range cFunction.FindAllSubmatch(f.text, -1) {
			if n := bytes.Count(match[0], []byte("\n")) + 1; n > cFunctionLines {
				breaches[f.dir()+"."+string(match[1])] = fmt.Sprintf("%d lines of at most %d", n, cFunctionLines)
			}
		}
	}
	longC.check(t, breaches)
}
