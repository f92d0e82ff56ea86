// Package restored knows the process trees that were restored: by the name of the keeper's socket,
// which says whose each is, and for a while after they have ended, so that whoever follows one
// through a restart of phosd still learns how it ended.
//
// It restores nothing: package ckpt does, and a keeper (criu/restorer) stays the parent of what was
// restored. Read Trees.
package restored
