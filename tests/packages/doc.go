// Package packages tests what ./build.sh package makes: the .deb in bare roots of distributions,
// from its installation over an upgrade under a running program to its purge, and the image with
// dockerd. scripts/package.sh makes the packages and the roots.
//
// Read lifecycle_test.go first.
package packages
