package ignore

import (
	"bytes"
	"path"
	"strings"
)

// MaxBytes is how much of a file with rules is read.
const MaxBytes = 1 << 20

// rule is one line of a file.
type rule struct {
	pattern string
	// anchored means that the pattern is matched with the path below the file's directory, and not
	// with the last name of the path.
	anchored bool
	// dirOnly means that it matches directories only.
	dirOnly bool
	// includes means that it takes back what an earlier rule leaves out.
	includes bool
}

// parse reads the rules of a file.
func parse(text []byte) (rules []rule) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for line := range strings.SplitSeq(string(text), "\n") {
		if r, ok := parseLine(strings.TrimSuffix(line, "\r")); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// parseLine reads a rule. Comments and empty lines are none.
func parseLine(line string) (r rule, ok bool) {
	line = trimSpaces(line)
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.includes, line = true, line[1:]
	}
	if dir, isDir := strings.CutSuffix(line, "/"); isDir {
		r.dirOnly, line = true, dir
	}
	r.anchored = strings.Contains(line, "/")
	r.pattern = strings.TrimPrefix(line, "/")
	return r, line != ""
}

// trimSpaces removes the spaces at the end that no backslash precedes.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line):
			i++
			end = i + 1
		case line[i] != ' ':
			end = i + 1
		}
	}
	return line[:end]
}

// Rules are those of a directory and of the directories above it.
type Rules struct {
	above *Rules
	// dir is the directory, relative to the top; "." is the top.
	dir   string
	rules []rule
}

// Below returns the rules of a directory below that of r, which has files with these texts. r is
// nil for the top. Later texts, and deeper directories, go before.
func (r *Rules) Below(dir string, texts ...[]byte) *Rules {
	below := &Rules{above: r, dir: dir}
	for _, text := range texts {
		below.rules = append(below.rules, parse(text)...)
	}
	if len(below.rules) == 0 && r != nil {
		return r
	}
	return below
}

// Leaves reports whether the rules leave a path out, which is relative to the top. What lies in a
// directory that is left out is left out with it; the caller must not ask for that.
func (r *Rules) Leaves(name string, isDir bool) bool {
	for ; r != nil; r = r.above {
		within := name
		if r.dir != "." {
			within = strings.TrimPrefix(name, r.dir+"/")
		}
		for i := len(r.rules) - 1; i >= 0; i-- {
			if r.rules[i].matches(within, isDir) {
				return !r.rules[i].includes
			}
		}
	}
	return false
}

// matches reports whether a rule is about a path.
func (r *rule) matches(within string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	if !r.anchored {
		within = path.Base(within)
	}
	return match(r.pattern, within)
}
