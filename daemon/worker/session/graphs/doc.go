// Package graphs handles the calls about graphs and their nodes, executable graphs, the capture of
// streams, and user objects. The rules are in package graph. Tested by the tests of package
// session.
package graphs
