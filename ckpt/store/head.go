package store

import (
	"path"
	"strings"
)

// pagesPrefix begins the names of CRIU's files with the memory of processes.
const pagesPrefix = "pages-"

// inHead reports whether a content, as walk names it, is neither memory nor of a saved file: it is
// a tree, or of a file of CRIU that holds no pages.
func inHead(of string) bool {
	root, entry, isEntry := strings.Cut(of, ", ")
	switch {
	case strings.HasPrefix(root, "file "):
		return false
	case !isEntry:
		return true
	}
	return root == "cpu" && !strings.HasPrefix(path.Base(entry), pagesPrefix)
}
