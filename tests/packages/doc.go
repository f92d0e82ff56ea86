// Package packages tests what ./build.sh package makes, by the commands of docs/packages.md: the
// packages in bare roots of distributions, from their installation over an upgrade under a program
// that is saved and restored to their purge, and the image with dockerd. scripts/package.sh makes
// the packages and the roots.
//
// Read lifecycle_test.go first.
package packages
