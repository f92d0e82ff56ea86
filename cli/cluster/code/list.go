package code

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// list returns what is to be packed: paths below the directory, sorted, directories before what is
// in them.
func list(ctx context.Context, root *os.Root) ([]string, error) {
	l := &lister{ctx: ctx, root: root, found: map[string]bool{}, dirs: map[string]bool{".": true}}
	listed, isTree := gitFiles(ctx, root.Name())
	if !isTree {
		l.rules = []string{".gitignore", ".phosignore"}
		return l.names(l.walk(".", nil))
	}
	l.rules = []string{".phosignore"}
	return l.names(l.filter(listed))
}

// gitFiles returns the files of a git work tree that git does not ignore. It reports false if the
// directory is in none, or if git ignores it as a whole.
func gitFiles(ctx context.Context, dir string) (names []string, isTree bool) {
	if _, err := git(ctx, dir, "check-ignore", "-q", "."); err == nil {
		return nil, false
	}
	output, err := git(ctx, dir, "ls-files", "-coz", "--exclude-standard")
	if err != nil {
		return nil, false
	}
	for name := range bytes.SplitSeq(output, []byte{0}) {
		if len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return names, true
}

// git runs git in a directory. Variables that point it at another repository are removed, and a
// program that the repository names for watching files is not run.
func git(ctx context.Context, dir string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false"}, arguments...)...)
	command.Dir = dir
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "GIT_DIR=") || strings.HasPrefix(variable, "GIT_WORK_TREE=") ||
			strings.HasPrefix(variable, "GIT_INDEX_FILE=")
	})
	return command.Output()
}

// names returns what was found, sorted.
func (l *lister) names(err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	all := make([]string, 0, len(l.found))
	for name := range l.found {
		all = append(all, name)
	}
	slices.Sort(all)
	return all, nil
}

// filter takes files that git has listed, with the directories above them. A file may be gone: git
// lists what it tracks.
func (l *lister) filter(listed []string) error {
	for _, name := range listed {
		name = path.Clean(name) // a repository in the tree is listed with a slash at its end
		if !filepath.IsLocal(name) || !l.keeps(path.Dir(name)) {
			continue
		}
		info, err := l.root.Lstat(name)
		if err != nil {
			continue
		}
		if info.IsDir() {
			if err := l.nested(name); err != nil {
				return err
			}
			continue
		}
		if !l.rulesOf(path.Dir(name)).Leaves(name, false) {
			l.take(name)
		}
	}
	return nil
}

// nested takes the files of a repository in the tree, such as a submodule.
func (l *lister) nested(dir string) error {
	if l.rulesOf(path.Dir(dir)).Leaves(dir, true) {
		return nil
	}
	below, isTree := gitFiles(l.ctx, filepath.Join(l.root.Name(), dir))
	if _, err := l.root.Lstat(path.Join(dir, ".git")); err != nil || !isTree {
		return nil // a submodule that is not checked out
	}
	for i := range below {
		below[i] = path.Join(dir, below[i])
	}
	l.take(dir)
	return l.filter(below)
}

// take adds a path and the directories above it.
func (l *lister) take(name string) {
	for ; name != "." && !l.found[name]; name = path.Dir(name) {
		l.found[name] = true
	}
}

// kept reports whether the kind of a file can be packed.
func kept(mode fs.FileMode) bool {
	return mode.IsRegular() || mode.IsDir() || mode&fs.ModeSymlink != 0
}
