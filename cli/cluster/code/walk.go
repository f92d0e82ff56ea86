package code

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cli/cluster/ignore"
)

// maxFiles is how many files a node unpacks.
const maxFiles = 200_000

// lister finds what is to be packed.
type lister struct {
	ctx  context.Context
	root *os.Root
	// rules are the names of the files with rules, the later of which go before.
	rules []string
	found map[string]bool
	// dirs says whether a directory is kept, and ruled has the rules in it.
	dirs  map[string]bool
	ruled map[string]*ignore.Rules
}

// walk takes what is in a directory, whose rules are above.
func (l *lister) walk(dir string, above *ignore.Rules) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	entries, err := l.read(dir)
	if err != nil {
		return err
	}
	rules := l.rulesIn(dir, above)
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if entry.Name() == ".git" || rules.Leaves(name, entry.IsDir()) {
			continue
		}
		if l.found[name] = true; len(l.found) > maxFiles {
			return fmt.Errorf("%w: more than %d files; leave some out with a .phosignore", ErrTooLarge, maxFiles)
		}
		if entry.IsDir() {
			if err := l.walk(name, rules); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns what is in a directory. It never follows a link out of the root.
func (l *lister) read(dir string) ([]fs.DirEntry, error) {
	// It may have become a FIFO, which would block.
	file, err := l.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the directory of the launch: %w", err)
	}
	defer file.Close()
	return file.ReadDir(-1)
}

// rulesIn returns the rules that hold in a directory. Files with rules that cannot be read have
// none.
func (l *lister) rulesIn(dir string, above *ignore.Rules) *ignore.Rules {
	var texts [][]byte
	for _, name := range l.rules {
		file, _, err := openRegular(l.root, path.Join(dir, name))
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(file, ignore.MaxBytes))
		_ = file.Close()
		if err == nil {
			texts = append(texts, text)
		}
	}
	return above.Below(dir, texts...)
}

// rulesOf returns the rules that hold in a directory, for paths that come in any order.
func (l *lister) rulesOf(dir string) *ignore.Rules {
	if rules, known := l.ruled[dir]; known {
		return rules
	}
	var above *ignore.Rules
	if dir != "." {
		above = l.rulesOf(path.Dir(dir))
	}
	if l.ruled == nil {
		l.ruled = map[string]*ignore.Rules{}
	}
	l.ruled[dir] = l.rulesIn(dir, above)
	return l.ruled[dir]
}

// keeps reports whether no rule leaves a directory out, nor one above it.
func (l *lister) keeps(dir string) bool {
	keeps, known := l.dirs[dir]
	if !known {
		above := path.Dir(dir)
		keeps = l.keeps(above) && !l.rulesOf(above).Leaves(dir, true)
		l.dirs[dir] = keeps
	}
	return keeps
}

// openRegular opens a regular file. A fifo that has taken its place does not block.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%.200q is no longer a regular file", name)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}
