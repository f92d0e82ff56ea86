package rules

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// testedByList matches the packages after "Tested by".
	testedByList = regexp.MustCompile(`Tested by ((?:the tests of )?(?:packages? )?[^.]*)`)
	// packageWord matches one name of a package in such a list, as a path or after "package".
	packageWord = regexp.MustCompile(`(?:\bpackage )([a-z0-9_]+)\b|\b([a-z0-9_]+(?:/[a-z0-9_]+)+)\b`)
)

// TestTestedByNamesTests: a package that is named after "Tested by" has test files.
func TestTestedByNamesTests(t *testing.T) {
	tested, dirs := map[string]bool{}, map[string]bool{}
	all := sources(t, func(file) bool { return true })
	for _, s := range all {
		dirs[s.dir()] = true
		if s.isTest() {
			tested[s.dir()], tested[path.Base(s.dir())] = true, true
		}
	}
	named := 0
	for _, s := range all {
		if s.syntax.Doc == nil {
			continue
		}
		for _, list := range testedByList.FindAllStringSubmatch(strings.Join(strings.Fields(s.syntax.Doc.Text()), " "), -1) {
			for _, match := range packageWord.FindAllStringSubmatch(list[1], -1) {
				name := match[1] + match[2]
				if named++; !tested[name] {
					t.Errorf("%s: Tested by %s, which has no tests", s.path, name)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no package comment names its tests")
	}
}

// testName matches a word that can only be the name of a test.
var testName = regexp.MustCompile(`^Test[A-Z]\w*`)

// TestCommentsOfTests: a comment on a test that begins with the name of a test begins with its own.
func TestCommentsOfTests(t *testing.T) {
	for _, s := range sources(t, file.isTest) {
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Doc == nil || !testName.MatchString(f.Name.Name) {
				continue
			}
			if first := testName.FindString(f.Doc.Text()); first != "" && first != f.Name.Name {
				t.Errorf("%s:%d: the comment on %s names %s", s.path, s.set.Position(f.Pos()).Line, f.Name.Name, first)
			}
		}
	}
}

// fieldsOf returns the names of a struct's fields. Embedded fields go by the names of their types.
func fieldsOf(s *ast.StructType) (names []string) {
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			names = append(names, name.Name)
		}
		if len(f.Names) == 0 {
			names = append(names, embeddedName(f.Type))
		}
	}
	return names
}

func embeddedName(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return embeddedName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return embeddedName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var (
	guards = regexp.MustCompile(`\bguards ((?:[^.:;]|\.\w)*)`)
	// restOfGuards begins what follows the names in "guards a and b while c runs".
	restOfGuards = regexp.MustCompile(` (while|of|in|for|until|by)\b.*`)
	separator    = regexp.MustCompile(`,? and |, `)
	identifier   = regexp.MustCompile(`^\w+$`)
	// allFields are what a lock guards that guards all that is below it.
	allFields = []string{"all", "what", "the", "all below", "what follows"}
)

// TestGuardedFieldsExist: "guards a and b" beside a lock names fields of the same struct.
func TestGuardedFieldsExist(t *testing.T) {
	looked := 0
	for _, s := range sources(t, product) {
		ast.Inspect(s.syntax, func(node ast.Node) bool {
			structure, ok := node.(*ast.StructType)
			if !ok {
				return true
			}
			fields := fieldsOf(structure)
			for _, f := range structure.Fields.List {
				selector, ok := f.Type.(*ast.SelectorExpr)
				if !ok || !isMutex(selector) {
					continue
				}
				for _, name := range guardedNames(f.Doc.Text() + " " + f.Comment.Text()) {
					if looked++; !slices.Contains(fields, name) {
						t.Errorf("%s:%d: a lock guards %s, which the struct does not have",
							s.path, s.set.Position(f.Pos()).Line, name)
					}
				}
			}
			return true
		})
	}
	if looked == 0 {
		t.Error("no lock says what it guards")
	}
}

// guardedNames returns the fields that the comment on a lock names. Phrases are not names.
func guardedNames(text string) (names []string) {
	for _, match := range guards.FindAllStringSubmatch(text, -1) {
		list := restOfGuards.ReplaceAllString(strings.Join(strings.Fields(match[1]), " "), "")
		for _, name := range separator.Split(list, -1) {
			if identifier.MatchString(name) && !slices.Contains(allFields, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// namedLock matches the name of a lock after that of its type and a dot. A receiver's name has one
// or two letters.
var namedLock = regexp.MustCompile(`\b(\w{3,})\.([mM]u)\b`)

// TestNamedLocksExist: a lock that a comment names by its type is a field of that type.
func TestNamedLocksExist(t *testing.T) {
	locks, all := map[string]bool{}, sources(t, func(file) bool { return true })
	for _, s := range all {
		ast.Inspect(s.syntax, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok {
				if structure, ok := spec.Type.(*ast.StructType); ok {
					for _, name := range fieldsOf(structure) {
						locks[s.dir()+" "+spec.Name.Name+"."+name] = true
						locks[spec.Name.Name+"."+name] = true
					}
				}
			}
			return true
		})
	}
	looked := 0
	for _, s := range all {
		for _, group := range s.syntax.Comments {
			text := group.Text()
			for _, at := range namedLock.FindAllStringSubmatchIndex(text, -1) {
				name := text[at[0]:at[1]]
				// After a package's name the type is one of another package.
				qualified := at[0] > 0 && text[at[0]-1] == '.'
				if looked++; !locks[s.dir()+" "+name] && !(qualified && locks[name]) {
					t.Errorf("%s:%d: there is no lock %s", s.path, s.set.Position(group.Pos()).Line, name)
				}
			}
		}
	}
	if looked == 0 {
		t.Error("no comment names a lock")
	}
}
