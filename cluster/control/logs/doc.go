// Package logs keeps the ends of the logs of attempts on the controller that leads, for the time
// when their nodes are gone. Nodes send what is new every few seconds (cluster/agent/ends.go); the
// format is that of cluster/linelog.
//
// What is kept is bounded: a part of each log, and so many bytes in all, of which those go first
// that have not grown for the longest time. Another controller that leads has what nodes have sent
// it since.
//
// Read logs.go. The lock of Store guards everything in it, files included.
package logs
