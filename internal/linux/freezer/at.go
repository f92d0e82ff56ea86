package freezer

import "path/filepath"

// At returns a group that a dead phosd and its dead watchdog have left. The origin of its processes
// is unknown; they are moved to the group's parent.
func At(path string) *Group { return &Group{Path: path, parent: filepath.Dir(path)} }
