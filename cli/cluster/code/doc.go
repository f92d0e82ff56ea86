// Package code packs the directory of a caller for a launch.
//
// In a git work tree, what git tracks and what it does not ignore is packed; elsewhere everything
// that .gitignore files do not leave out. .phosignore files, in the same form, leave out more. Only
// files, directories and symbolic links are packed, and a file has the bytes that it had when it
// was opened. The same directory gives the same bytes: a tar of sorted names without times and
// owners, compressed by zstd. Its BLAKE3 is its name, so that the cluster gets it once.
//
// Read pack.go; list.go and walk.go find the files. The agent of a node unpacks them.
package code
