package freezer

import "path/filepath"

// At is a group that is there already: what a dead phosd and a dead watchdog have left. Where its
// processes came from is known no more; they go back to where the group is.
func At(path string) *Group { return &Group{Path: path, parent: filepath.Dir(path)} }
