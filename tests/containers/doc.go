// Package containers runs the commands of docs/containers.md, with the distribution's Docker and
// Podman.
package containers
