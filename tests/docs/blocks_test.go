package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// block is a literal block of a document.
type block struct {
	line     int // of its first line
	marks    map[string]string
	language string // of a fenced block
	lines    []string
}

// command is a command of a block, with the output that the document shows below it.
type command struct {
	line   int
	text   string
	output []string
}

var mark = regexp.MustCompile(`^<!-- (as|file|not run|tested by): (.*) -->$`)

// readBlocks returns the literal blocks of a document: indented by four spaces, or fenced.
func readBlocks(t *testing.T, path string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(harness.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	marks := map[string]string{}
	var open *block
	fenced, paragraph := false, false
	end := func() {
		if open != nil {
			all = append(all, *open)
			open, marks = nil, map[string]string{}
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && fenced:
			fenced = false
			end()
		case fence:
			end()
			fenced, open = true, &block{line: i + 2, marks: marks, language: strings.TrimPrefix(line, "```")}
		case fenced:
			open.lines = append(open.lines, line)
		case strings.HasPrefix(line, "    ") && !paragraph:
			if open == nil {
				open = &block{line: i + 1, marks: marks}
			}
			open.lines = append(open.lines, strings.TrimPrefix(line, "    "))
		case line == "" && open != nil:
			open.lines = append(open.lines, "")
		default:
			end()
			if m := mark.FindStringSubmatch(line); m != nil {
				marks[m[1]] = m[2]
			}
		}
		// An indented line that follows text is not a block, but a part of a list.
		paragraph = !fenced && open == nil && line != "" && !strings.HasPrefix(line, "<!--") && !fence
	}
	end()
	return all
}

// commands returns the commands of a block. In a block that shows output they follow "$ ".
func (b block) commands() (all []command) {
	console := strings.HasPrefix(b.lines[0], "$ ")
	for i := 0; i < len(b.lines); i++ {
		text := b.lines[i]
		line := b.line + i
		if console && !strings.HasPrefix(text, "$ ") {
			all[len(all)-1].output = append(all[len(all)-1].output, text)
			continue
		}
		text = strings.TrimPrefix(text, "$ ")
		for strings.HasSuffix(text, `\`) && i+1 < len(b.lines) {
			i++
			text += "\n" + b.lines[i]
		}
		if text != "" && !strings.HasPrefix(text, "#") {
			all = append(all, command{line: line, text: text})
		}
	}
	return all
}

// TestBlocks reads blocks of each form.
func TestBlocks(t *testing.T) {
	b := block{line: 7, lines: []string{"$ a b \\", "    c", "one", "two", "$ d", ""}}
	got := b.commands()
	if len(got) != 2 || got[0].text != "a b \\\n    c" || len(got[0].output) != 2 || got[1].line != 11 {
		t.Errorf("got %+v", got)
	}
	plain := block{line: 1, lines: []string{"# words", "a &    # b", "", "c"}}
	if got := plain.commands(); len(got) != 2 || got[1].line != 4 {
		t.Errorf("got %+v", got)
	}
}
