// Package recipe runs the commands of documents as they stand there. Read finds them; a Room is a
// machine on which they can do what they say. Tested here, used by tests/containers,
// tests/packages and tests/slurm.
package recipe

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Block is a piece of a document with a mark.
type Block struct {
	// Name is the mark's: of commands, "start"; of a file, its path, "/etc/slurm/slurm.conf".
	Name string
	// File says that the block is the content of a file.
	File bool
	// Text is the block without its indentation.
	Text string
}

// mark precedes a block: <!-- recipe: start --> or <!-- file: /etc/slurm/slurm.conf -->.
var mark = regexp.MustCompile(`^<!-- (recipe|file): (\S+) -->$`)

const indentation = "    "

// Read returns the blocks of a document. Every indented block of it must have a mark, so that none
// is left untested.
func Read(document io.Reader) ([]Block, error) {
	var blocks []Block
	var open *Block // marked, or being read
	blank := ""
	lines := bufio.NewScanner(document)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		code, indented := strings.CutPrefix(line, indentation)
		switch {
		case indented && open == nil:
			return nil, fmt.Errorf("line %d: a block without a mark: %s", number, code)
		case indented:
			open.Text += blank + code + "\n"
			blank = ""
		case line == "":
			if open != nil && open.Text != "" {
				blank += "\n"
			}
		default:
			if open != nil && open.Text == "" {
				return nil, fmt.Errorf("line %d: the mark %s has no block", number, open.Name)
			}
			if open != nil {
				blocks = append(blocks, *open)
			}
			open, blank = nil, ""
			if found := mark.FindStringSubmatch(line); found != nil {
				open = &Block{Name: found[2], File: found[1] == "file"}
			}
		}
	}
	if open != nil {
		blocks = append(blocks, *open)
	}
	return blocks, lines.Err()
}
